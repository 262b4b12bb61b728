; Packing two halves into a word is one instruction. Values come through both generators, and words by prmt.
; RUN: %nv nvptx sm_80 %s | FileCheck %s
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=NVVM %}

; Two values of 16 bits.
; CHECK-LABEL: entry values(
; CHECK-NOT: {{shl|or\.b32|cvt}}
; CHECK: mov.b32 [[R:%r[0-9]+]], {%rs{{[0-9]+}}, %rs{{[0-9]+}}};
; CHECK: add.rn.f16x2 %r{{[0-9]+}}, [[R]], [[R]];
; NVVM-LABEL: entry values(
; NVVM: mov.b32 {{.*}}, {%rs{{[0-9]+}}, %rs{{[0-9]+}}};
define void @values(ptr addrspace(1) %p) {
  %a = load i16, ptr addrspace(1) %p, align 2
  %q = getelementptr i8, ptr addrspace(1) %p, i64 6
  %b = load i16, ptr addrspace(1) %q, align 2
  %x = zext i16 %a to i32
  %y = zext i16 %b to i32
  %z = shl i32 %y, 16
  %w = or i32 %z, %x
  %h = bitcast i32 %w to <2 x half>
  %s = fadd <2 x half> %h, %h
  store <2 x half> %s, ptr addrspace(1) %p, align 4
  ret void
}

; Halves of two words, in each combination. The hexadecimal digits select bytes; those of the lower half come
; last.
; CHECK-LABEL: entry words(
; CHECK-NOT: {{shl|or\.b32|and\.b32}}
; CHECK: prmt.b32 {{.*}}, 0x5410U;
; CHECK: prmt.b32 {{.*}}, 0x7610U;
; CHECK: prmt.b32 {{.*}}, 0x7632U;
; CHECK: prmt.b32 {{.*}}, 0x5432U;
; CHECK: ret;
define void @words(ptr addrspace(1) %p) {
  %v = load <2 x i32>, ptr addrspace(1) %p, align 8
  %a = extractelement <2 x i32> %v, i32 0
  %b = extractelement <2 x i32> %v, i32 1
  %al = and i32 %a, 65535
  %ah = lshr i32 %a, 16
  %bl = shl i32 %b, 16
  %bh = and i32 %b, -65536
  %ll = or i32 %al, %bl
  %lh = or i32 %al, %bh
  %hh = or i32 %ah, %bh
  %hl = or i32 %ah, %bl
  %r0 = insertelement <4 x i32> undef, i32 %ll, i32 0
  %r1 = insertelement <4 x i32> %r0, i32 %lh, i32 1
  %r2 = insertelement <4 x i32> %r1, i32 %hh, i32 2
  %r3 = insertelement <4 x i32> %r2, i32 %hl, i32 3
  %q = getelementptr i8, ptr addrspace(1) %p, i64 16
  store <4 x i32> %r3, ptr addrspace(1) %q, align 16
  ret void
}
