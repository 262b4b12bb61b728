; A tile of 16 x 8 of a product by one warp: cp.async into two buffers, ldmatrix, mma.sync.
; RUN: %nv typed sm_80 %s | FileCheck %s --check-prefix=TYPED
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
; TYPED: call { float, float, float, float } asm "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$0, $1, $2, $3};", "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3"(
; PTX: .visible .entry mma(
; PTX: cp.async.cg.shared.global
; PTX: cp.async.commit_group;
; PTX: cp.async.wait_group 1;
; PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
; PTX: ldmatrix.sync.aligned.m8n8.x2.shared.b16
; PTX: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32

declare i32 @tg.lane.id() #0
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.shared.addr(ptr addrspace(3)) #0
declare void @tg.nv.cp.async.16(i32, ptr addrspace(1), i32, i1) #0
declare void @tg.nv.cp.async.commit() #0
declare void @tg.nv.cp.async.wait.1() #0
declare void @tg.warp.sync() #1
declare { i32, i32, i32, i32 } @tg.nv.ldmatrix.x4(i32) #1
declare { i32, i32 } @tg.nv.ldmatrix.x2(i32) #1
declare { float, float, float, float } @tg.nv.mma.m16n8k16.f32.f16.f16(i32, i32, i32, i32, i32, i32, float, float, float, float) #1

; A is 16 x k and B 8 x k, k contiguous. A buffer: A's 16 rows of 32 bytes, then B's 8.
define void @mma(ptr addrspace(1) noalias align 16 %a, ptr addrspace(1) noalias align 16 %b, ptr addrspace(1) noalias align 16 %c, i32 %k) #2 {
entry:
  %lane = call i32 @tg.lane.id()
  %shared = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %shared)
  %row = lshr i32 %lane, 1
  %part = and i32 %lane, 1
  %partb = shl i32 %part, 4
  %rowb = shl i32 %row, 5
  %place = or i32 %rowb, %partb
  %to = add i32 %base, %place
  %stride = shl i32 %k, 1
  %rs = mul i32 %row, %stride
  %from0 = add i32 %rs, %partb
  %pa = getelementptr i8, ptr addrspace(1) %a, i32 %from0
  %isb = icmp ult i32 %row, 8
  %brow = and i32 %row, 7
  %bs = mul i32 %brow, %stride
  %bfrom = add i32 %bs, %partb
  %pb = getelementptr i8, ptr addrspace(1) %b, i32 %bfrom
  %tob = add i32 %to, 512
  %fromb = select i1 %isb, i32 16, i32 0
  %sel = and i32 %lane, 15
  %selr = shl i32 %sel, 5
  %hi = lshr i32 %lane, 4
  %hib = shl i32 %hi, 4
  %lda0 = or i32 %selr, %hib
  %lda = add i32 %base, %lda0
  %br = and i32 %lane, 7
  %brb = shl i32 %br, 5
  %bk = lshr i32 %sel, 3
  %bkb = shl i32 %bk, 4
  %ldb0 = or i32 %brb, %bkb
  %ldb1 = add i32 %base, %ldb0
  %ldb = add i32 %ldb1, 512
  %scrap = add i32 %base, 1536
  %tob2 = select i1 %isb, i32 %tob, i32 %scrap
  call void @tg.nv.cp.async.16(i32 %to, ptr addrspace(1) %pa, i32 16, i1 true)
  call void @tg.nv.cp.async.16(i32 %tob2, ptr addrspace(1) %pb, i32 %fromb, i1 true)
  call void @tg.nv.cp.async.commit()
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  %flip = phi i32 [ 0, %entry ], [ %flip1, %loop ]
  %acc0 = phi float [ 0.0, %entry ], [ %d0, %loop ]
  %acc1 = phi float [ 0.0, %entry ], [ %d1, %loop ]
  %acc2 = phi float [ 0.0, %entry ], [ %d2, %loop ]
  %acc3 = phi float [ 0.0, %entry ], [ %d3, %loop ]
  %i1 = add i32 %i, 16
  %flip1 = xor i32 %flip, 768
  %more = icmp slt i32 %i1, %k
  %na = add i32 %to, %flip1
  %nb0 = add i32 %tob, %flip1
  %nb = select i1 %isb, i32 %nb0, i32 %scrap
  %step = shl i32 %i1, 1
  %qa = getelementptr i8, ptr addrspace(1) %pa, i32 %step
  %qb = getelementptr i8, ptr addrspace(1) %pb, i32 %step
  %n16 = select i1 %more, i32 16, i32 0
  %nb16 = select i1 %more, i32 %fromb, i32 0
  call void @tg.nv.cp.async.16(i32 %na, ptr addrspace(1) %qa, i32 %n16, i1 true)
  call void @tg.nv.cp.async.16(i32 %nb, ptr addrspace(1) %qb, i32 %nb16, i1 true)
  call void @tg.nv.cp.async.commit()
  call void @tg.nv.cp.async.wait.1()
  call void @tg.warp.sync() #1
  %xa = add i32 %lda, %flip
  %xb = add i32 %ldb, %flip
  %fa = call { i32, i32, i32, i32 } @tg.nv.ldmatrix.x4(i32 %xa) #1
  %fb = call { i32, i32 } @tg.nv.ldmatrix.x2(i32 %xb) #1
  %fa0 = extractvalue { i32, i32, i32, i32 } %fa, 0
  %fa1 = extractvalue { i32, i32, i32, i32 } %fa, 1
  %fa2 = extractvalue { i32, i32, i32, i32 } %fa, 2
  %fa3 = extractvalue { i32, i32, i32, i32 } %fa, 3
  %fb0 = extractvalue { i32, i32 } %fb, 0
  %fb1 = extractvalue { i32, i32 } %fb, 1
  %d = call { float, float, float, float } @tg.nv.mma.m16n8k16.f32.f16.f16(i32 %fa0, i32 %fa1, i32 %fa2, i32 %fa3, i32 %fb0, i32 %fb1, float %acc0, float %acc1, float %acc2, float %acc3) #1
  %d0 = extractvalue { float, float, float, float } %d, 0
  %d1 = extractvalue { float, float, float, float } %d, 1
  %d2 = extractvalue { float, float, float, float } %d, 2
  %d3 = extractvalue { float, float, float, float } %d, 3
  call void @tg.warp.sync() #1
  br i1 %more, label %loop, label %done

done:
  %g = lshr i32 %lane, 2
  %q = and i32 %lane, 3
  %gb = shl i32 %g, 5
  %qbytes = shl i32 %q, 3
  %out = or i32 %gb, %qbytes
  %pc = getelementptr inbounds i8, ptr addrspace(1) %c, i32 %out
  %pc8 = getelementptr inbounds i8, ptr addrspace(1) %pc, i32 256
  %u0 = insertelement <2 x float> undef, float %d0, i32 0
  %u1 = insertelement <2 x float> %u0, float %d1, i32 1
  %w0 = insertelement <2 x float> undef, float %d2, i32 0
  %w1 = insertelement <2 x float> %w0, float %d3, i32 1
  store <2 x float> %u1, ptr addrspace(1) %pc, align 8
  store <2 x float> %w1, ptr addrspace(1) %pc8, align 8
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="32,1,1" }
