; Asynchronous copies: late data, data that the other proxy does not see, data that clusters share.
; RUN: %sim run --check --kernel staged --shared 512 %s in:i32[64]=iota out:i32[64] | FileCheck %s --check-prefix=STAGED
; RUN: %sim run --kernel staged --shared 512 --seed 7 %s in:i32[64]=iota out:i32[64] | FileCheck %s --check-prefix=STAGED
; STAGED: 1: 60 61 62 63 56 57 58 59 {{.*}} 0 1 2 3{{$}}
; RUN: %sim sites --check %s | FileCheck %s --check-prefix=SITES
; SITES: 0: tg.nv.cp.async.wait.0 in staged
; SITES: 1: tg.barrier in staged
; SITES: 2: tg.nv.fence.proxy.async.shared in out
; SITES: 3: tg.barrier in out
; SITES: 4: tg.nv.tma.wait.read.0 in out
; SITES: 5: tg.nv.fence.mbarrier.init in in
; SITES: 6: tg.barrier in in
; SITES: 7: tg.nv.mbarrier.wait in in
; SITES: 8: tg.cluster.arrive in spread
; SITES: 9: tg.cluster.wait in spread
; Without the wait, a lane may read nothing, or race with the copy.
; RUN: not %sim run --check --skip 0 --kernel staged --shared 512 %s in:i32[64]=iota out:i32[64] | FileCheck %s --check-prefix=NOWAIT
; NOWAIT: not waited for: byte {{[0-9]+}} of shared memory is read by thread {{.*}}, and written by thread {{.*}} at tg.nv.cp.async.16 {{.*}}, which has not finished
; RUN: %sim run --skip 0 --kernel staged --shared 512 --seed 3 %s in:i32[64]=iota out:i32[64] | FileCheck %s --check-prefix=CANARY
; CANARY: 2142601141 2142601141 2142601141 2142601141
; RUN: not %sim run --check --skip 1 --kernel staged --shared 512 %s in:i32[64]=iota out:i32[64] | FileCheck %s --check-prefix=NOBARRIER
; NOBARRIER: {{race|not been written yet|not waited for}}

; RUN: %sim run --check --kernel out --shared 128 %s map:i32[32x1]@1,box=32x1 out:i32[32] | FileCheck %s --check-prefix=OUT
; RUN: %sim run --kernel out --shared 128 %s map:i32[32x1]@1,box=32x1 out:i32[32] | FileCheck %s --check-prefix=OUT
; OUT: 1: 0 1 2 {{.*}} 30 31{{$}}
; Columns outside of the tensor are not written.
; RUN: %sim run --check --kernel out --shared 128 %s map:i32[28x1]@1,box=32x1 out:i32[32]=-5 | FileCheck %s --check-prefix=CLIPPED
; CLIPPED: 1: 0 1 2 {{.*}} 26 27 -5 -5 -5 -5{{$}}
; RUN: not %sim run --check --skip 2 --kernel out --shared 128 %s map:i32[32x1]@1,box=32x1 out:i32[32] | FileCheck %s --check-prefix=NOFENCE
; NOFENCE: no proxy fence: byte 0 of shared memory is used by the asynchronous proxy at tg.nv.tma.store.2d {{.*}}, and was written by thread 0 {{.*}} at a store of 4 bytes
; Without --check the store takes the previous contents.
; RUN: %sim run --skip 2 --kernel out --shared 128 %s map:i32[32x1]@1,box=32x1 out:i32[32] | FileCheck %s --check-prefix=STALE
; STALE: 1: 2142732215 2142732215
; RUN: not %sim run --check --skip 4 --kernel out --shared 128 %s map:i32[32x1]@1,box=32x1 out:i32[32] | FileCheck %s --check-prefix=ENDS
; ENDS: thread 0 {{.*}} ends before tg.nv.tma.store.2d {{.*}} has read shared memory: there was no wait for it

; RUN: %sim run --check --kernel in --shared 256 %s map:i32[32x1]@2,box=32x1 out:i32[32] in:i32[32]=iota | FileCheck %s --check-prefix=IN
; RUN: %sim run --kernel in --shared 256 --seed 5 %s map:i32[32x1]@2,box=32x1 out:i32[32] in:i32[32]=iota | FileCheck %s --check-prefix=IN
; IN: 1: 0 1 2 {{.*}} 30 31{{$}}
; Columns outside are 0, and count as arrived bytes.
; RUN: %sim run --check --kernel in --shared 256 %s map:i32[28x1]@2,box=32x1 out:i32[32] in:i32[28]=7 | FileCheck %s --check-prefix=PAD
; PAD: 1: 7 7 {{.*}} 7 0 0 0 0{{$}}
; RUN: not %sim run --skip 5 --kernel in --shared 256 %s map:i32[32x1]@2,box=32x1 out:i32[32] in:i32[32]=iota | FileCheck %s --check-prefix=INIT
; INIT: tg.nv.tma.load.2d {{.*}}: no fence has shown the asynchronous proxy the mbarrier that was initialised by tg.nv.mbarrier.init
; RUN: not %sim run --check --skip 7 --kernel in --shared 256 %s map:i32[32x1]@2,box=32x1 out:i32[32] in:i32[32]=iota | FileCheck %s --check-prefix=EARLY
; EARLY: race: byte {{[0-9]+}} of shared memory is read by thread {{.*}}, and written by asynchronous work at tg.nv.tma.load.2d

; Each of two CTAs writes to the other's memory.
; RUN: %sim run --check --kernel spread --grid 2 --shared 128 %s out:i32[64] | FileCheck %s --check-prefix=SPREAD
; SPREAD: 0: 32 33 {{.*}} 62 63 0 1 2 {{.*}} 30 31{{$}}
; RUN: not %sim run --check --skip 9 --kernel spread --grid 2 --shared 128 %s out:i32[64] | FileCheck %s --check-prefix=APART
; APART: {{race|not been written yet}}
; RUN: not %sim run --kernel spread --grid 3 --shared 128 %s out:i32[64] | FileCheck %s --check-prefix=GRID
; GRID: a grid of 3 CTAs in clusters of 2

; One load serves both.
; RUN: %sim run --check --kernel multicast --grid 4 --shared 256 %s map:i32[32x2]@2,box=32x1 out:i32[128] in:i32[64]=iota | FileCheck %s --check-prefix=MULTI
; MULTI: 1: 0 1 {{.*}} 31 0 1 {{.*}} 31 32 33 {{.*}} 63 32 33 {{.*}} 63{{$}}

declare i32 @tg.thread.id.x() #0
declare i32 @tg.cta.id.x() #0
declare i32 @tg.cluster.rank() #0
declare void @tg.barrier() #1
declare void @tg.cluster.arrive() #1
declare void @tg.cluster.wait() #1
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.shared.addr(ptr addrspace(3)) #0
declare i32 @tg.nv.cluster.addr(i32, i32) #0
declare void @tg.store.cluster.b32(i32, i1, i32) #0
declare void @tg.nv.cp.async.16(i32, ptr addrspace(1), i32, i1) #0
declare void @tg.nv.cp.async.commit() #0
declare void @tg.nv.cp.async.wait.0() #0
declare void @tg.nv.fence.proxy.async.shared() #0
declare void @tg.nv.fence.mbarrier.init() #0
declare void @tg.nv.mbarrier.init(i32, i1, i32) #0
declare void @tg.nv.mbarrier.expect_tx(i32, i1, i32) #0
declare void @tg.nv.mbarrier.wait(i32, i32) #1
declare void @tg.nv.tma.load.2d(ptr, i32, i32, i1, i32, i32) #0
declare void @tg.nv.tma.load.2d.multicast(ptr, i32, i32, i1, i32, i32, i16) #0
declare void @tg.nv.tma.store.2d(ptr, i32, i1, i32, i32) #0
declare void @tg.nv.tma.commit() #0
declare void @tg.nv.tma.wait.read.0() #0

; 16 threads copy 16 bytes each, and each reads the bytes of another.
define void @staged(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %s)
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %a = add i32 %base, %o
  call void @tg.nv.cp.async.16(i32 %a, ptr addrspace(1) %g, i32 16, i1 true)
  call void @tg.nv.cp.async.commit()
  call void @tg.nv.cp.async.wait.0()
  call void @tg.barrier() #1
  %r = sub i32 240, %o
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %r
  %v = load <4 x i32>, ptr addrspace(3) %p
  %q = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store <4 x i32> %v, ptr addrspace(1) %q
  ret void
}

define void @out(ptr byval([128 x i8]) align 64 %map) #3 {
  %t = call i32 @tg.thread.id.x()
  %one = icmp eq i32 %t, 0
  %s = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %s)
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store i32 %t, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.tma.store.2d(ptr %map, i32 %base, i1 %one, i32 0, i32 0)
  call void @tg.nv.tma.commit()
  call void @tg.nv.tma.wait.read.0()
  ret void
}

define void @in(ptr byval([128 x i8]) align 64 %map, ptr addrspace(1) %out) #3 {
  %t = call i32 @tg.thread.id.x()
  %one = icmp eq i32 %t, 0
  %s = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %s)
  %bar = add i32 %base, 128
  call void @tg.nv.mbarrier.init(i32 %bar, i1 %one, i32 1)
  call void @tg.nv.fence.mbarrier.init()
  call void @tg.barrier() #1
  call void @tg.nv.mbarrier.expect_tx(i32 %bar, i1 %one, i32 128)
  call void @tg.nv.tma.load.2d(ptr %map, i32 %base, i32 %bar, i1 %one, i32 0, i32 0)
  call void @tg.nv.mbarrier.wait(i32 %bar, i32 0) #1
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %v = load i32, ptr addrspace(3) %p
  %q = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 %v, ptr addrspace(1) %q
  ret void
}

define void @spread(ptr addrspace(1) %out) #4 {
  %t = call i32 @tg.thread.id.x()
  %c = call i32 @tg.cta.id.x()
  %rank = call i32 @tg.cluster.rank()
  %other = xor i32 %rank, 1
  %s = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %s)
  %o = shl i32 %t, 2
  %a = add i32 %base, %o
  %there = call i32 @tg.nv.cluster.addr(i32 %a, i32 %other)
  %c32 = shl i32 %c, 5
  %n = add i32 %c32, %t
  call void @tg.store.cluster.b32(i32 %there, i1 true, i32 %n)
  call void @tg.cluster.arrive() #1
  call void @tg.cluster.wait() #1
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %v = load i32, ptr addrspace(3) %p
  %n4 = shl i32 %n, 2
  %q = getelementptr i8, ptr addrspace(1) %out, i32 %n4
  store i32 %v, ptr addrspace(1) %q
  ret void
}

; Row c / 2 goes to both CTAs of cluster c / 2; each counts its own bytes.
define void @multicast(ptr byval([128 x i8]) align 64 %map, ptr addrspace(1) %out) #4 {
  %t = call i32 @tg.thread.id.x()
  %one = icmp eq i32 %t, 0
  %c = call i32 @tg.cta.id.x()
  %rank = call i32 @tg.cluster.rank()
  %zero = icmp eq i32 %rank, 0
  %asks = and i1 %one, %zero
  %row = lshr i32 %c, 1
  %s = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %s)
  %bar = add i32 %base, 128
  call void @tg.nv.mbarrier.init(i32 %bar, i1 %one, i32 1)
  call void @tg.nv.fence.mbarrier.init()
  call void @tg.nv.mbarrier.expect_tx(i32 %bar, i1 %one, i32 128)
  call void @tg.cluster.arrive() #1
  call void @tg.cluster.wait() #1
  call void @tg.nv.tma.load.2d.multicast(ptr %map, i32 %base, i32 %bar, i1 %asks, i32 0, i32 %row, i16 3)
  call void @tg.nv.mbarrier.wait(i32 %bar, i32 0) #1
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %v = load i32, ptr addrspace(3) %p
  %c7 = shl i32 %c, 7
  %at = add i32 %c7, %o
  %q = getelementptr i8, ptr addrspace(1) %out, i32 %at
  store i32 %v, ptr addrspace(1) %q
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="16,1,1" }
attributes #3 = { "tg.maxntid"="32,1,1" }
attributes #4 = { "tg.maxntid"="32,1,1" "tg.cluster"="2,1,1" }
