; A tile of 64 x 64 of a product by one warpgroup: TMA into a ring of two slots, wgmma, TMA out.
; RUN: %nv typed sm_90a %s | FileCheck %s --check-prefix=TYPED
; RUN: %nv check %s | FileCheck %s --check-prefix=CHECKER
; RUN: %nv nvptx sm_90a %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s --check-prefix=PTX %}

; CHECKER: {{^}}portable{{$}}
; PTX-NOT: .extern .func
; TYPED: asm sideeffect "{{.*}}wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}$31}, $32, $36, p, 1, 1, 0, 0; setp.eq.u32 p, 0, 0; wgmma{{.*}}$35, $39, p, 1, 1, 0, 0; setp.eq.u32 p, 0, 0;
; TYPED-SAME: l,l,l,l,l,l,l,l,0,1,2,{{.*}},30,31,b,~{memory}"
; TYPED: !"maxntidx", i32 128, {{.*}}!"minctasm", i32 1, !"grid_constant", ![[GRID:[0-9]+]]}
; TYPED: ![[GRID]] = !{i32 1, i32 2, i32 3}
; PTX: .visible .entry wgmma(
; PTX: .minnctapersm 1
; PTX: elect.sync
; PTX: mbarrier.init.shared::cta.b64
; PTX: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
; PTX: mbarrier.try_wait.parity.shared::cta.b64
; PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
; PTX: wgmma.wait_group.sync.aligned 0;
; PTX: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group

declare i32 @tg.thread.id.x() #0
declare i32 @tg.warp.id() #1
declare i32 @tg.cta.id.x() #0
declare i32 @tg.cta.id.y() #0
declare i1 @tg.nv.elect() #1
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.shared.addr(ptr addrspace(3)) #0
declare void @tg.barrier() #1
declare void @tg.nv.fence.mbarrier.init() #0
declare void @tg.nv.fence.proxy.async.shared() #0
declare void @tg.nv.mbarrier.init(i32, i1, i32) #0
declare void @tg.nv.mbarrier.expect_tx(i32, i1, i32) #0
declare void @tg.nv.mbarrier.wait(i32, i32) #1
declare void @tg.nv.tma.load.2d(ptr, i32, i32, i1, i32, i32) #0
declare void @tg.nv.tma.store.2d(ptr, i32, i1, i32, i32) #0
declare void @tg.nv.tma.commit() #0
declare void @tg.nv.tma.wait.0() #0
declare void @tg.nv.wgmma.fence() #1
declare void @tg.nv.wgmma.commit() #1
declare { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } @tg.nv.wgmma.wait.0.f32x32(float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float) #1
declare { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } @tg.nv.wgmma.m64n64k16.f32.bf16.bf16.ss.x4(i64, i64, i64, i64, i64, i64, i64, i64, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, i1) #1

; Shared memory: A and B of a slot, 8 KiB each, then the next slot; at 32768 the two mbarriers.
define void @wgmma(ptr byval([128 x i8]) align 64 %a, ptr byval([128 x i8]) align 64 %b, ptr byval([128 x i8]) align 64 %c, i32 %k) #2 {
entry:
  %t = call i32 @tg.thread.id.x()
  %warp = call i32 @tg.warp.id() #1
  %cx = call i32 @tg.cta.id.x()
  %cy = call i32 @tg.cta.id.y()
  %shared = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %shared)
  %lane = call i1 @tg.nv.elect() #1
  %w0 = icmp eq i32 %warp, 0
  %one = and i1 %lane, %w0
  %m = shl i32 %cy, 6
  %n = shl i32 %cx, 6
  %bar = add i32 %base, 32768
  %bar1 = add i32 %base, 32776
  call void @tg.nv.mbarrier.init(i32 %bar, i1 %one, i32 1)
  call void @tg.nv.mbarrier.init(i32 %bar1, i1 %one, i32 1)
  call void @tg.nv.fence.mbarrier.init()
  call void @tg.barrier() #1
  %b0 = add i32 %base, 8192
  call void @tg.nv.mbarrier.expect_tx(i32 %bar, i1 %one, i32 16384)
  call void @tg.nv.tma.load.2d(ptr %a, i32 %base, i32 %bar, i1 %one, i32 0, i32 %m)
  call void @tg.nv.tma.load.2d(ptr %b, i32 %b0, i32 %bar, i1 %one, i32 0, i32 %n)
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  %item = phi i32 [ 0, %entry ], [ %item1, %loop ]
  %acc0 = phi float [ 0.0, %entry ], [ %d0, %loop ]
  %acc1 = phi float [ 0.0, %entry ], [ %d1, %loop ]
  %acc2 = phi float [ 0.0, %entry ], [ %d2, %loop ]
  %acc3 = phi float [ 0.0, %entry ], [ %d3, %loop ]
  %acc4 = phi float [ 0.0, %entry ], [ %d4, %loop ]
  %acc5 = phi float [ 0.0, %entry ], [ %d5, %loop ]
  %acc6 = phi float [ 0.0, %entry ], [ %d6, %loop ]
  %acc7 = phi float [ 0.0, %entry ], [ %d7, %loop ]
  %acc8 = phi float [ 0.0, %entry ], [ %d8, %loop ]
  %acc9 = phi float [ 0.0, %entry ], [ %d9, %loop ]
  %acc10 = phi float [ 0.0, %entry ], [ %d10, %loop ]
  %acc11 = phi float [ 0.0, %entry ], [ %d11, %loop ]
  %acc12 = phi float [ 0.0, %entry ], [ %d12, %loop ]
  %acc13 = phi float [ 0.0, %entry ], [ %d13, %loop ]
  %acc14 = phi float [ 0.0, %entry ], [ %d14, %loop ]
  %acc15 = phi float [ 0.0, %entry ], [ %d15, %loop ]
  %acc16 = phi float [ 0.0, %entry ], [ %d16, %loop ]
  %acc17 = phi float [ 0.0, %entry ], [ %d17, %loop ]
  %acc18 = phi float [ 0.0, %entry ], [ %d18, %loop ]
  %acc19 = phi float [ 0.0, %entry ], [ %d19, %loop ]
  %acc20 = phi float [ 0.0, %entry ], [ %d20, %loop ]
  %acc21 = phi float [ 0.0, %entry ], [ %d21, %loop ]
  %acc22 = phi float [ 0.0, %entry ], [ %d22, %loop ]
  %acc23 = phi float [ 0.0, %entry ], [ %d23, %loop ]
  %acc24 = phi float [ 0.0, %entry ], [ %d24, %loop ]
  %acc25 = phi float [ 0.0, %entry ], [ %d25, %loop ]
  %acc26 = phi float [ 0.0, %entry ], [ %d26, %loop ]
  %acc27 = phi float [ 0.0, %entry ], [ %d27, %loop ]
  %acc28 = phi float [ 0.0, %entry ], [ %d28, %loop ]
  %acc29 = phi float [ 0.0, %entry ], [ %d29, %loop ]
  %acc30 = phi float [ 0.0, %entry ], [ %d30, %loop ]
  %acc31 = phi float [ 0.0, %entry ], [ %d31, %loop ]
  %i1 = add i32 %i, 64
  %item1 = add i32 %item, 1
  %more = icmp slt i32 %i1, %k
  %go = and i1 %more, %one
  %slot = and i32 %item, 1
  %phase0 = lshr i32 %item, 1
  %phase = and i32 %phase0, 1
  %slot1 = xor i32 %slot, 1
  %off = shl i32 %slot, 14
  %off1 = shl i32 %slot1, 14
  %at = add i32 %base, %off
  %na = add i32 %base, %off1
  %nb = add i32 %b0, %off1
  %bo = shl i32 %slot, 3
  %bo1 = shl i32 %slot1, 3
  %full = add i32 %bar, %bo
  %nfull = add i32 %bar, %bo1
  call void @tg.nv.mbarrier.expect_tx(i32 %nfull, i1 %go, i32 16384)
  call void @tg.nv.tma.load.2d(ptr %a, i32 %na, i32 %nfull, i1 %go, i32 %i1, i32 %m)
  call void @tg.nv.tma.load.2d(ptr %b, i32 %nb, i32 %nfull, i1 %go, i32 %i1, i32 %n)
  call void @tg.nv.mbarrier.wait(i32 %full, i32 %phase) #1
  %sa = lshr i32 %at, 4
  %sa1 = and i32 %sa, 16383
  %sa2 = zext i32 %sa1 to i64
  %da0 = or i64 %sa2, 4611686293372403712
  %db0 = add i64 %da0, 512
  %da1 = add i64 %da0, 2
  %db1 = add i64 %db0, 2
  %da2 = add i64 %da0, 4
  %db2 = add i64 %db0, 4
  %da3 = add i64 %da0, 6
  %db3 = add i64 %db0, 6
  %add = icmp ne i32 %i, 0
  call void @tg.nv.wgmma.fence() #1
  %e = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } @tg.nv.wgmma.m64n64k16.f32.bf16.bf16.ss.x4(i64 %da0, i64 %da1, i64 %da2, i64 %da3, i64 %db0, i64 %db1, i64 %db2, i64 %db3, float %acc0, float %acc1, float %acc2, float %acc3, float %acc4, float %acc5, float %acc6, float %acc7, float %acc8, float %acc9, float %acc10, float %acc11, float %acc12, float %acc13, float %acc14, float %acc15, float %acc16, float %acc17, float %acc18, float %acc19, float %acc20, float %acc21, float %acc22, float %acc23, float %acc24, float %acc25, float %acc26, float %acc27, float %acc28, float %acc29, float %acc30, float %acc31, i1 %add) #1
  %e0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 0
  %e1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 1
  %e2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 2
  %e3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 3
  %e4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 4
  %e5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 5
  %e6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 6
  %e7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 7
  %e8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 8
  %e9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 9
  %e10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 10
  %e11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 11
  %e12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 12
  %e13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 13
  %e14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 14
  %e15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 15
  %e16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 16
  %e17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 17
  %e18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 18
  %e19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 19
  %e20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 20
  %e21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 21
  %e22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 22
  %e23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 23
  %e24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 24
  %e25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 25
  %e26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 26
  %e27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 27
  %e28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 28
  %e29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 29
  %e30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 30
  %e31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %e, 31
  call void @tg.nv.wgmma.commit() #1
  %d = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } @tg.nv.wgmma.wait.0.f32x32(float %e0, float %e1, float %e2, float %e3, float %e4, float %e5, float %e6, float %e7, float %e8, float %e9, float %e10, float %e11, float %e12, float %e13, float %e14, float %e15, float %e16, float %e17, float %e18, float %e19, float %e20, float %e21, float %e22, float %e23, float %e24, float %e25, float %e26, float %e27, float %e28, float %e29, float %e30, float %e31) #1
  %d0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 0
  %d1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 1
  %d2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 2
  %d3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 3
  %d4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 4
  %d5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 5
  %d6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 6
  %d7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 7
  %d8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 8
  %d9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 9
  %d10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 10
  %d11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 11
  %d12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 12
  %d13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 13
  %d14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 14
  %d15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 15
  %d16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 16
  %d17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 17
  %d18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 18
  %d19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 19
  %d20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 20
  %d21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 21
  %d22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 22
  %d23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 23
  %d24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 24
  %d25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 25
  %d26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 26
  %d27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 27
  %d28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 28
  %d29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 29
  %d30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 30
  %d31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %d, 31
  call void @tg.barrier() #1
  br i1 %more, label %loop, label %done

done:
  %lo = and i32 %t, 31
  %g = lshr i32 %lo, 2
  %q = and i32 %lo, 3
  %w16 = shl i32 %warp, 4
  %r = add i32 %w16, %g
  %rb = shl i32 %r, 8
  %qb = shl i32 %q, 3
  %o = add i32 %rb, %qb
  %p = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %o
  %x0 = insertelement <2 x float> undef, float %d0, i32 0
  %y0 = insertelement <2 x float> %x0, float %d1, i32 1
  %p0 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 0
  store <2 x float> %y0, ptr addrspace(3) %p0, align 8
  %x2 = insertelement <2 x float> undef, float %d2, i32 0
  %y2 = insertelement <2 x float> %x2, float %d3, i32 1
  %p2 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2048
  store <2 x float> %y2, ptr addrspace(3) %p2, align 8
  %x4 = insertelement <2 x float> undef, float %d4, i32 0
  %y4 = insertelement <2 x float> %x4, float %d5, i32 1
  %p4 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 32
  store <2 x float> %y4, ptr addrspace(3) %p4, align 8
  %x6 = insertelement <2 x float> undef, float %d6, i32 0
  %y6 = insertelement <2 x float> %x6, float %d7, i32 1
  %p6 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2080
  store <2 x float> %y6, ptr addrspace(3) %p6, align 8
  %x8 = insertelement <2 x float> undef, float %d8, i32 0
  %y8 = insertelement <2 x float> %x8, float %d9, i32 1
  %p8 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 64
  store <2 x float> %y8, ptr addrspace(3) %p8, align 8
  %x10 = insertelement <2 x float> undef, float %d10, i32 0
  %y10 = insertelement <2 x float> %x10, float %d11, i32 1
  %p10 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2112
  store <2 x float> %y10, ptr addrspace(3) %p10, align 8
  %x12 = insertelement <2 x float> undef, float %d12, i32 0
  %y12 = insertelement <2 x float> %x12, float %d13, i32 1
  %p12 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 96
  store <2 x float> %y12, ptr addrspace(3) %p12, align 8
  %x14 = insertelement <2 x float> undef, float %d14, i32 0
  %y14 = insertelement <2 x float> %x14, float %d15, i32 1
  %p14 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2144
  store <2 x float> %y14, ptr addrspace(3) %p14, align 8
  %x16 = insertelement <2 x float> undef, float %d16, i32 0
  %y16 = insertelement <2 x float> %x16, float %d17, i32 1
  %p16 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 128
  store <2 x float> %y16, ptr addrspace(3) %p16, align 8
  %x18 = insertelement <2 x float> undef, float %d18, i32 0
  %y18 = insertelement <2 x float> %x18, float %d19, i32 1
  %p18 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2176
  store <2 x float> %y18, ptr addrspace(3) %p18, align 8
  %x20 = insertelement <2 x float> undef, float %d20, i32 0
  %y20 = insertelement <2 x float> %x20, float %d21, i32 1
  %p20 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 160
  store <2 x float> %y20, ptr addrspace(3) %p20, align 8
  %x22 = insertelement <2 x float> undef, float %d22, i32 0
  %y22 = insertelement <2 x float> %x22, float %d23, i32 1
  %p22 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2208
  store <2 x float> %y22, ptr addrspace(3) %p22, align 8
  %x24 = insertelement <2 x float> undef, float %d24, i32 0
  %y24 = insertelement <2 x float> %x24, float %d25, i32 1
  %p24 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 192
  store <2 x float> %y24, ptr addrspace(3) %p24, align 8
  %x26 = insertelement <2 x float> undef, float %d26, i32 0
  %y26 = insertelement <2 x float> %x26, float %d27, i32 1
  %p26 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2240
  store <2 x float> %y26, ptr addrspace(3) %p26, align 8
  %x28 = insertelement <2 x float> undef, float %d28, i32 0
  %y28 = insertelement <2 x float> %x28, float %d29, i32 1
  %p28 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 224
  store <2 x float> %y28, ptr addrspace(3) %p28, align 8
  %x30 = insertelement <2 x float> undef, float %d30, i32 0
  %y30 = insertelement <2 x float> %x30, float %d31, i32 1
  %p30 = getelementptr inbounds i8, ptr addrspace(3) %p, i32 2272
  store <2 x float> %y30, ptr addrspace(3) %p30, align 8
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.tma.store.2d(ptr %c, i32 %base, i1 %one, i32 %n, i32 %m)
  call void @tg.nv.tma.commit()
  call void @tg.nv.tma.wait.0()
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="128,1,1" "tg.minctasm"="1" }
