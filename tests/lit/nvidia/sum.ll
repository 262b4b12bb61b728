; A CTA sums a row of 1024 numbers: four a lane, shuffles, shared memory, one atomic. The loop's metadata
; keeps it a loop; libNVVM would unroll it.
; RUN: %nv check %s | FileCheck %s --check-prefix=CHECKER
; RUN: %nv nvptx sm_80 %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=PTX %}
; RUN: %nv nvptx sm_86 %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_86 %s | FileCheck %s --check-prefix=PTX %}
; RUN: %nv nvptx sm_89 %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_89 %s | FileCheck %s --check-prefix=PTX %}
; RUN: %nv nvptx sm_90a %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s --check-prefix=PTX %}
; RUN: %nv nvptx sm_100a %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_100a %s | FileCheck %s --check-prefix=PTX %}
; RUN: %nv nvptx sm_120a %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_120a %s | FileCheck %s --check-prefix=PTX %}

; CHECKER: {{^}}portable{{$}}
; PTX-NOT: .extern .func
; PTX: .visible .entry sum(
; PTX-COUNT-5: shfl.sync.bfly.b32
; PTX: bar.sync 0;
; PTX-COUNT-1: ld.shared
; PTX-NOT: ld.shared
; PTX: atom.relaxed.gpu.global.add.f32

declare i32 @tg.thread.id.x() #0
declare i32 @tg.lane.id() #0
declare i32 @tg.warp.id() #1
declare i32 @tg.shuffle.xor(i32, i32) #1
declare ptr addrspace(3) @tg.shared.base() #0
declare void @tg.barrier() #1
declare float @tg.atomic.global.add.f32.gpu(ptr addrspace(1), i1, float) #0

define void @sum(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) %y) #2 {
  %t = call i32 @tg.thread.id.x()
  %lane = call i32 @tg.lane.id()
  %warp = call i32 @tg.warp.id() #1
  %shared = call ptr addrspace(3) @tg.shared.base()
  %off = shl nuw nsw i32 %t, 4
  %px = getelementptr inbounds i8, ptr addrspace(1) %x, i32 %off
  %v = load <4 x float>, ptr addrspace(1) %px, align 16
  %v0 = extractelement <4 x float> %v, i32 0
  %v1 = extractelement <4 x float> %v, i32 1
  %v2 = extractelement <4 x float> %v, i32 2
  %v3 = extractelement <4 x float> %v, i32 3
  %a = fadd float %v0, %v1
  %b = fadd float %v2, %v3
  %s16 = fadd float %a, %b
  %i16 = bitcast float %s16 to i32
  %x16 = call i32 @tg.shuffle.xor(i32 %i16, i32 16) #1
  %f16 = bitcast i32 %x16 to float
  %r16 = fadd float %s16, %f16
  %i8 = bitcast float %r16 to i32
  %x8 = call i32 @tg.shuffle.xor(i32 %i8, i32 8) #1
  %f8 = bitcast i32 %x8 to float
  %r8 = fadd float %r16, %f8
  %i4 = bitcast float %r8 to i32
  %x4 = call i32 @tg.shuffle.xor(i32 %i4, i32 4) #1
  %f4 = bitcast i32 %x4 to float
  %r4 = fadd float %r8, %f4
  %i2 = bitcast float %r4 to i32
  %x2 = call i32 @tg.shuffle.xor(i32 %i2, i32 2) #1
  %f2 = bitcast i32 %x2 to float
  %r2 = fadd float %r4, %f2
  %i1 = bitcast float %r2 to i32
  %x1 = call i32 @tg.shuffle.xor(i32 %i1, i32 1) #1
  %f1 = bitcast i32 %x1 to float
  %r1 = fadd float %r2, %f1
  %slot = shl nuw nsw i32 %warp, 2
  %ps = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %slot
  store float %r1, ptr addrspace(3) %ps, align 4
  call void @tg.barrier() #1
  %first = icmp eq i32 %t, 0
  br label %loop

loop:
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %acc = phi float [ 0.0, %0 ], [ %acc1, %loop ]
  %o = shl nuw nsw i32 %i, 2
  %p = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %o
  %e = load float, ptr addrspace(3) %p, align 4
  %acc1 = fadd float %acc, %e
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %next, 8
  br i1 %more, label %loop, label %done, !llvm.loop !0

done:
  %old = call float @tg.atomic.global.add.f32.gpu(ptr addrspace(1) %y, i1 %first, float %acc1)
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="256,1,1" }
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
