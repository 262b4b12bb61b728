; Sums of masked vectors: the typed-pointer dialect of LLVM 7, and the PTX of both generators.
; RUN: %nv typed sm_80 %s | FileCheck %s --check-prefix=TYPED
; RUN: %nv nvptx sm_80 %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=PTX %}

; TYPED: define void @add(i8 addrspace(1)* noalias align 16 %a, {{.*}}, i32 %n) #0 {
; TYPED: %[[T:.*]] = call i32 asm "mov.u32 $0, %tid.x;", "=r"() #2
; TYPED: %pa = getelementptr i8, i8 addrspace(1)* %a, i64 %off
; TYPED: %[[P:.*]] = ptrtoint i8 addrspace(1)* %pa to i64
; TYPED-NEXT: call { i32, i32, i32, i32 } asm sideeffect "@$5 ld.global.nc.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l,b,0,1,2,3,~{memory}"(i64 %[[P]], i1 %on, i32 0, i32 0, i32 0, i32 0) #0
; TYPED: !nvvm.annotations = !{!0}
; TYPED: !0 = !{void (i8 addrspace(1)*, i8 addrspace(1)*, i8 addrspace(1)*, i32)* @add, !"kernel", i32 1, !"maxntidx", i32 256, !"maxntidy", i32 1, !"maxntidz", i32 1, !"minctasm", i32 1}

; PTX-NOT: .extern .func
; PTX: .visible .entry add(
; PTX: .maxntid 256, 1, 1
; PTX: @%p{{[0-9]+}} ld.global.nc.v4.b32
; PTX: add{{(.rn)?}}.f32
; PTX: @%p{{[0-9]+}} st.global.v4.b32

declare i32 @tg.thread.id.x() #0
declare i32 @tg.cta.id.x() #0
declare { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1), i1, i32, i32, i32, i32) #0
declare void @tg.store.global.b32x4(ptr addrspace(1), i1, i32, i32, i32, i32) #0

define void @add(ptr addrspace(1) noalias align 16 %a, ptr addrspace(1) noalias align 16 %b, ptr addrspace(1) noalias align 16 %c, i32 %n) #1 {
  %t = call i32 @tg.thread.id.x()
  %k = call i32 @tg.cta.id.x()
  %base = mul nsw i32 %k, 1024
  %t4 = shl nuw nsw i32 %t, 2
  %i = add nsw i32 %base, %t4
  %on = icmp slt i32 %i, %n
  %wide = sext i32 %i to i64
  %off = shl i64 %wide, 2
  %pa = getelementptr i8, ptr addrspace(1) %a, i64 %off
  %pb = getelementptr i8, ptr addrspace(1) %b, i64 %off
  %pc = getelementptr i8, ptr addrspace(1) %c, i64 %off
  %x = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %pa, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %y = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %pb, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x0 = extractvalue { i32, i32, i32, i32 } %x, 0
  %x1 = extractvalue { i32, i32, i32, i32 } %x, 1
  %x2 = extractvalue { i32, i32, i32, i32 } %x, 2
  %x3 = extractvalue { i32, i32, i32, i32 } %x, 3
  %y0 = extractvalue { i32, i32, i32, i32 } %y, 0
  %y1 = extractvalue { i32, i32, i32, i32 } %y, 1
  %y2 = extractvalue { i32, i32, i32, i32 } %y, 2
  %y3 = extractvalue { i32, i32, i32, i32 } %y, 3
  %xf0 = bitcast i32 %x0 to float
  %yf0 = bitcast i32 %y0 to float
  %s0 = fadd float %xf0, %yf0
  %z0 = bitcast float %s0 to i32
  %xf1 = bitcast i32 %x1 to float
  %yf1 = bitcast i32 %y1 to float
  %s1 = fadd float %xf1, %yf1
  %z1 = bitcast float %s1 to i32
  %xf2 = bitcast i32 %x2 to float
  %yf2 = bitcast i32 %y2 to float
  %s2 = fadd float %xf2, %yf2
  %z2 = bitcast float %s2 to i32
  %xf3 = bitcast i32 %x3 to float
  %yf3 = bitcast i32 %y3 to float
  %s3 = fadd float %xf3, %yf3
  %z3 = bitcast float %s3 to i32
  call void @tg.store.global.b32x4(ptr addrspace(1) %pc, i1 %on, i32 %z0, i32 %z1, i32 %z2, i32 %z3)
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { "tg.maxntid"="256,1,1" }
