; Everything that a portable module may contain, in the dialect of LLVM 7 and through both generators.
; RUN: %nv check %s | FileCheck %s --check-prefix=CHECKER
; RUN: %nv typed sm_80 %s | FileCheck %s --check-prefixes=TYPED,LLVM7
; RUN: %nv typed sm_100a %s | FileCheck %s --check-prefixes=TYPED,LATER
; RUN: %nv nvptx sm_80 %s | FileCheck %s --check-prefix=PTX
; RUN: %nv nvptx sm_120a %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=PTX %}
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s --check-prefix=PTX %}
; RUN: %if libnvvm %{ %nv nvvm sm_100a %s | FileCheck %s --check-prefix=PTX %}

; CHECKER: {{^}}portable{{$}}

; TYPED: @tg_shared = external addrspace(3) global [0 x i8], align 1024
; TYPED: define void @all(i8 addrspace(1)* noalias readonly align 16 dereferenceable(64) %p, i8 addrspace(1)* nonnull %q, i32 %n, i64 %l, double %d, half %h,
; LLVM7-SAME: [128 x i8]* byval align 64 %.byval6) #0 {
; LATER-SAME: [128 x i8]* byval([128 x i8]) align 64 %.byval6) #0 {
; TYPED: %map = bitcast [128 x i8]* %.byval6 to i8*
; TYPED: %a = add nuw nsw i32 %n, 1
; TYPED: %d0 = udiv exact i32 %c, %n
; TYPED: %f0 = fadd reassoc nnan ninf nsz arcp contract afn float %f, %g
; TYPED: %f2 = fmul contract float %f1, 0x7FF0000000000000
; TYPED: %f5 = fsub nnan float -0.000000e+00, %f4
; TYPED: %c1 = fcmp nnan uge float %f5, 0.000000e+00
; TYPED: br i1 %pos, label %"odd name", label %done
; TYPED: {{^}}"odd name":
; TYPED: %pair = phi { i32, float } [ { i32 0, float 0.000000e+00 }, %entry ], [ %both, %tail ]
; TYPED: %vec = phi <4 x float> [ <float 0.000000e+00, float 0.000000e+00, float 0.000000e+00, float 0.000000e+00>, %entry ], [ %v2, %tail ]
; TYPED: switch i32 %i, label %tail [ i32 0, label %zero i32 -1, label %tail ]
; TYPED: %k = phi i32 [ 1, %"odd name" ], [ 1, %"odd name" ], [ 2, %zero ]
; TYPED: %[[P:.*]] = bitcast i8 addrspace(1)* %at to <4 x float> addrspace(1)*
; TYPED-NEXT: %v0 = load <4 x float>, <4 x float> addrspace(1)* %[[P]], align 16, !invariant.load ![[EMPTY:[0-9]+]]
; TYPED: %v1 = insertelement <4 x float> undef, float %e0, i32 0
; TYPED: shufflevector <4 x float> %v1, <4 x float> %vec, <4 x i32> <i32 0, i32 0, i32 5, i32 7>
; TYPED: %r0 = load i32, {{.*}}, align 4, !range ![[RANGE:[0-9]+]]
; TYPED: insertvalue { i32, float } undef, i32 %x1, 0
; TYPED: br i1 %go, {{.*}}, !llvm.loop ![[LOOP:[0-9]+]]
; TYPED: fsub <4 x float> <float -0.000000e+00, float -0.000000e+00, float -0.000000e+00, float -0.000000e+00>, %last
; TYPED: call i32 asm "{ .reg .b32 t; mov.u32 t, %tid.x; shr.u32 t, t, 5; shfl.sync.idx.b32 $0, t, 0, 31, -1; }", "=r"() #3
; TYPED: getelementptr i8, i8 addrspace(3)* getelementptr inbounds ([0 x i8], [0 x i8] addrspace(3)* @tg_shared, i64 0, i64 0), i32
; TYPED: call void asm sideeffect "bar.sync 0;", "~{memory}"() #1
; TYPED: add i32 ptrtoint (i8 addrspace(3)* getelementptr inbounds ([0 x i8], [0 x i8] addrspace(3)* @tg_shared, i64 0, i64 0) to i32), %
; TYPED: call { i32, i32 } asm sideeffect "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {$0, $1}, [$2];", "=r,=r,r,~{memory}"(i32 %both2) #1
; TYPED: attributes #1 = { convergent nounwind }
; TYPED: !"minctasm", i32 1, !"grid_constant", ![[GRID:[0-9]+]]}
; TYPED-DAG: ![[EMPTY]] = !{}
; TYPED-DAG: ![[RANGE]] = !{i32 0, i32 256}
; TYPED-DAG: ![[LOOP]] = distinct !{![[LOOP]], !{{[0-9]+}}}
; TYPED-DAG: !{{[0-9]+}} = !{!"llvm.loop.unroll.disable"}
; TYPED-DAG: ![[GRID]] = !{i32 7}
; TYPED-NOT: {{ptr |poison|splat|fneg}}

; PTX-NOT: .extern .func
; PTX: .visible .entry all(
; PTX: .maxntid 128, 1, 1
; PTX-NEXT: .minnctapersm 1
; PTX: ldmatrix.sync.aligned.m8n8.x2.shared.b16

declare float @llvm.fma.f32(float, float, float)
declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)
declare float @llvm.sqrt.f32(float)
declare float @llvm.fabs.f32(float)
declare float @llvm.floor.f32(float)
declare float @llvm.ceil.f32(float)
declare float @llvm.trunc.f32(float)
declare float @llvm.rint.f32(float)
declare float @llvm.copysign.f32(float, float)
declare float @llvm.minnum.f32(float, float)
declare half @llvm.maxnum.f16(half, half)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.bswap.i32(i32)
declare i32 @llvm.bitreverse.i32(i32)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare void @llvm.assume(i1)
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.shared.addr(ptr addrspace(3)) #0
declare i32 @tg.warp.id() #1
declare void @tg.barrier() #1
declare { i32, i32 } @tg.nv.ldmatrix.x2(i32) #1

define void @all(ptr addrspace(1) noalias readonly align 16 dereferenceable(64) %p, ptr addrspace(1) nonnull %q, i32 %n, i64 %l, double %d, half %h, ptr byval([128 x i8]) align 64 %map) #2 {
entry:
  %a = add nuw nsw i32 %n, 1
  %b = sub i32 %a, %n
  %c = mul nsw i32 %b, %b
  %d0 = udiv exact i32 %c, %n
  %d1 = sdiv i32 %d0, %n
  %d2 = urem i32 %d1, 7
  %d3 = srem i32 %d2, %n
  %s0 = shl i32 %d3, 3
  %s1 = lshr exact i32 %s0, 2
  %s2 = ashr i32 %s1, %n
  %l0 = and i32 %s2, 65535
  %l1 = or i32 %l0, %n
  %l2 = xor i32 %l1, -1
  %f = sitofp i32 %l2 to float
  %g = uitofp i32 %l2 to float
  %f0 = fadd reassoc nnan ninf nsz arcp contract afn float %f, %g
  %f1 = fsub float %f0, 1.5
  %f2 = fmul contract float %f1, 0x7FF0000000000000
  %f3 = fdiv arcp float %f2, 0x3FB99999A0000000
  %f4 = frem float %f3, %g
  %f5 = fneg nnan float %f4
  %c0 = icmp ult i32 %n, 9
  %c1 = fcmp nnan uge float %f5, 0.0
  %c2 = and i1 %c0, %c1
  %f6 = select i1 %c2, float %f5, float %f1
  %t0 = trunc i64 %l to i16
  %t1 = zext i16 %t0 to i32
  %t2 = sext i32 %t1 to i64
  %t3 = fptrunc double %d to float
  %t4 = fpext half %h to float
  %t5 = fptoui float %t3 to i32
  %t6 = fptosi float %t4 to i32
  %t7 = bitcast i32 %t6 to float
  %m0 = call float @llvm.fma.f32(float %t7, float %f6, float %t3)
  %m1 = call float @llvm.sqrt.f32(float %m0)
  %m2 = call float @llvm.fabs.f32(float %m1)
  %m3 = call float @llvm.floor.f32(float %m2)
  %m4 = call float @llvm.ceil.f32(float %m3)
  %m5 = call float @llvm.trunc.f32(float %m4)
  %m6 = call float @llvm.rint.f32(float %m5)
  %m7 = call float @llvm.copysign.f32(float %m6, float %t7)
  %m8 = call float @llvm.minnum.f32(float %m7, float 1.0)
  %h0 = call half @llvm.maxnum.f16(half %h, half 0xH3C00)
  %i0 = call i32 @llvm.ctpop.i32(i32 %t5)
  %i1 = call i32 @llvm.bswap.i32(i32 %i0)
  %i2 = call i32 @llvm.bitreverse.i32(i32 %i1)
  %i3 = call i32 @llvm.fshl.i32(i32 %i2, i32 %i1, i32 %n)
  call void @llvm.assume(i1 %c0)
  %pos = icmp sgt i32 %n, 0
  br i1 %pos, label %"odd name", label %done

"odd name":
  %i = phi i32 [ 0, %entry ], [ %next, %tail ]
  %pair = phi { i32, float } [ zeroinitializer, %entry ], [ %both, %tail ]
  %vec = phi <4 x float> [ zeroinitializer, %entry ], [ %v2, %tail ]
  switch i32 %i, label %tail [ i32 0, label %zero
                               i32 -1, label %tail ]

zero:
  br label %tail

tail:
  %k = phi i32 [ 1, %"odd name" ], [ 1, %"odd name" ], [ 2, %zero ]
  %w = sext i32 %i to i64
  %at = getelementptr inbounds i8, ptr addrspace(1) %p, i64 %w
  %v0 = load <4 x float>, ptr addrspace(1) %at, align 16, !invariant.load !0
  %e0 = extractelement <4 x float> %v0, i32 1
  %v1 = insertelement <4 x float> undef, float %e0, i32 0
  %v2 = shufflevector <4 x float> %v1, <4 x float> %vec, <4 x i32> <i32 0, i32 0, i32 5, i32 7>
  %x0 = extractvalue { i32, float } %pair, 0
  %r0 = load i32, ptr addrspace(1) %q, align 4, !range !1
  %x1 = add i32 %x0, %r0
  %half0 = insertvalue { i32, float } undef, i32 %x1, 0
  %both = insertvalue { i32, float } %half0, float %e0, 1
  %next = add i32 %i, %k
  %go = icmp slt i32 %next, %n
  br i1 %go, label %"odd name", label %done, !llvm.loop !2

done:
  %last = phi <4 x float> [ <float 1.0, float 1.0, float 1.0, float 1.0>, %entry ], [ %v2, %tail ]
  %neg = fneg <4 x float> %last
  %byte = load i8, ptr %map, align 1
  %wide = zext i8 %byte to i32
  %sum = add i32 %wide, %i3
  %mx = call i32 @tg.warp.id() #1
  %sh = call ptr addrspace(3) @tg.shared.base()
  %sh1 = getelementptr i8, ptr addrspace(3) %sh, i32 %mx
  store float %m8, ptr addrspace(3) %sh1, align 4
  call void @tg.barrier() #1
  %sh2 = getelementptr inbounds i8, ptr addrspace(3) %sh, i64 16
  %num = call i32 @tg.shared.addr(ptr addrspace(3) %sh)
  %num2 = call i32 @tg.shared.addr(ptr addrspace(3) %sh2)
  %both2 = add i32 %num, %num2
  %ld = call { i32, i32 } @tg.nv.ldmatrix.x2(i32 %both2) #1
  %ld0 = extractvalue { i32, i32 } %ld, 0
  %ld1 = extractvalue { i32, i32 } %ld, 1
  %hh = bitcast i32 %ld0 to <2 x half>
  %hi = bitcast i32 %ld1 to <2 x half>
  %hf = call <2 x half> @llvm.fma.v2f16(<2 x half> %hh, <2 x half> %hi, <2 x half> <half 0xH3C00, half 0xH3C00>)
  store <2 x half> %hf, ptr addrspace(1) %q, align 4
  %q1 = getelementptr i8, ptr addrspace(1) %q, i64 16
  store <4 x float> %neg, ptr addrspace(1) %q1, align 16
  %q2 = getelementptr i8, ptr addrspace(1) %q, i64 32
  store i32 %sum, ptr addrspace(1) %q2, align 4
  %q3 = getelementptr i8, ptr addrspace(1) %q, i64 36
  store half %h0, ptr addrspace(1) %q3, align 2
  %q4 = getelementptr i8, ptr addrspace(1) %q, i64 40
  store i64 %t2, ptr addrspace(1) %q4, align 8
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { nounwind "tg.maxntid"="128,1,1" "tg.minctasm"="1" }
!0 = !{}
!1 = !{i32 0, i32 256}
!2 = distinct !{!2, !3}
!3 = !{!"llvm.loop.unroll.disable"}
