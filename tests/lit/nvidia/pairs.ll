; The module splits pairs of 16-bit floats, and PTX joins them again: this costs no instruction.
; RUN: %nv nvptx sm_90a %s | FileCheck %s
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s %}

; CHECK: cvt.rn.f16x2.f32 [[WORD:%r[0-9]+]],
; CHECK-NOT: {{cvt|shl|shr|or.b|prmt|mov.b32 {}}
; CHECK: st.global.{{[bu]}}32 [{{.*}}], [[WORD]];
; CHECK: cvt.rn.bf16x2.f32
; CHECK-NOT: cvt
; CHECK: mul.rn.f32
declare i32 @tg.cvt.f16x2.f32(float, float) #0
declare i32 @tg.cvt.bf16x2.f32(float, float) #0
declare i32 @tg.fma.bf16x2(i32, i32, i32) #0
define void @k(ptr addrspace(1) %p) {
  %a = load float, ptr addrspace(1) %p, align 4
  %q = getelementptr i8, ptr addrspace(1) %p, i64 16
  %b = load float, ptr addrspace(1) %q, align 4
  %w = call i32 @tg.cvt.f16x2.f32(float %a, float %b)
  %l = trunc i32 %w to i16
  %s = lshr i32 %w, 16
  %h = trunc i32 %s to i16
  %lf = bitcast i16 %l to half
  %hf = bitcast i16 %h to half
  %l2 = bitcast half %lf to i16
  %h2 = bitcast half %hf to i16
  %l3 = zext i16 %l2 to i32
  %h3 = zext i16 %h2 to i32
  %h4 = shl i32 %h3, 16
  %o = or i32 %l3, %h4
  store i32 %o, ptr addrspace(1) %p, align 4
  ; the halves of bf16 as f32
  %w2 = call i32 @tg.cvt.bf16x2.f32(float %a, float %b)
  %bl = trunc i32 %w2 to i16
  %bs = lshr i32 %w2, 16
  %bh = trunc i32 %bs to i16
  %bl1 = zext i16 %bl to i32
  %bl2 = shl i32 %bl1, 16
  %bl3 = bitcast i32 %bl2 to float
  %bh1 = zext i16 %bh to i32
  %bh2 = shl i32 %bh1, 16
  %bh3 = bitcast i32 %bh2 to float
  %m = fmul float %bl3, %bh3
  store float %m, ptr addrspace(1) %q, align 4
  ret void
}
attributes #0 = { nounwind memory(none) }
