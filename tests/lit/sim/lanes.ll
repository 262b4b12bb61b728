; Operations between lanes: shuffles, votes, reductions, atomics on one word, barriers of some warps.
; RUN: %sim run --check --kernel shuffles %s out:i32[256] | FileCheck %s --check-prefix=SHUFFLE
; xor 5, index 3, down 30, up 2, the odd lanes, any, all, sum.
; SHUFFLE: 0: 5 4 7 6 1 0 3 2 {{.*}} 27 26 3 3 3 {{.*}} 3 30 31 2 3 4 {{.*}} 31 0 1 0 1 2 {{.*}} 29 -1431655766 {{.*}} -1431655766 1 1 {{.*}} 1 0 0 {{.*}} 0 496 {{.*}} 496{{$}}
; RUN: %sim run --check --kernel atomics %s out:i32[12]=0 out:f32[1]=0 | FileCheck %s --check-prefix=ATOMIC
; ATOMIC: 0: 496 -31 0 31 0 65535 32 -1 7 2 4 0
; ATOMIC: 1: 496
; RUN: %sim run --check --kernel pairs --shared 256 --seed 1 %s out:i32[64] | FileCheck %s --check-prefix=PAIRS
; RUN: %sim run --check --kernel pairs --shared 256 --seed 2 %s out:i32[64] | FileCheck %s --check-prefix=PAIRS
; PAIRS: 0: 64 65 66 {{.*}} 126 127{{$}}
; RUN: %sim run --kernel elected %s out:i32[2]=0 | FileCheck %s --check-prefix=ELECT
; ELECT: 0: 2 2
; RUN: %sim run --kernel registers %s out:i32[1]=0 | FileCheck %s --check-prefix=REGISTERS
; REGISTERS: 0: 256
; RUN: not %sim run --check --kernel ways %s in:i32[32]=iota out:i32[32]=0 | FileCheck %s --check-prefix=WAYS
; WAYS: the lanes of a warp have taken different branches before tg.barrier {{.*}}: thread {{.*}} and thread

declare i32 @tg.thread.id.x() #0
declare i32 @tg.lane.id() #0
declare i32 @tg.warp.id() #1
declare i32 @tg.shuffle.xor(i32, i32) #1
declare i32 @tg.shuffle.idx(i32, i32) #1
declare i32 @tg.shuffle.down(i32, i32) #1
declare i32 @tg.shuffle.up(i32, i32) #1
declare i32 @tg.ballot(i1) #1
declare i1 @tg.vote.any(i1) #1
declare i1 @tg.vote.all(i1) #1
declare i32 @tg.redux.add.i32(i32) #1
declare void @tg.barrier() #1
declare void @tg.barrier.1.64() #1
declare void @tg.barrier.arrive.1.64() #1
declare i1 @tg.nv.elect() #1
declare void @tg.nv.setmaxnreg.dec.24() #1
declare void @tg.nv.setmaxnreg.inc.240() #1
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.min.i32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.max.i32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.min.u32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.max.u32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.inc.u32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.or.i32.gpu(ptr addrspace(1), i1, i32) #0
declare i32 @tg.atomic.global.cas.i32.gpu(ptr addrspace(1), i1, i32, i32) #0
declare float @tg.atomic.global.add.f32.gpu(ptr addrspace(1), i1, float) #0

define void @shuffles(ptr addrspace(1) %out) #2 {
  %l = call i32 @tg.lane.id()
  %o = shl i32 %l, 2
  %p0 = getelementptr i8, ptr addrspace(1) %out, i32 %o
  %a = call i32 @tg.shuffle.xor(i32 %l, i32 5) #1
  store i32 %a, ptr addrspace(1) %p0
  %p1 = getelementptr i8, ptr addrspace(1) %p0, i32 128
  %b = call i32 @tg.shuffle.idx(i32 %l, i32 3) #1
  store i32 %b, ptr addrspace(1) %p1
  %p2 = getelementptr i8, ptr addrspace(1) %p0, i32 256
  %c = call i32 @tg.shuffle.down(i32 %l, i32 30) #1
  store i32 %c, ptr addrspace(1) %p2
  %p3 = getelementptr i8, ptr addrspace(1) %p0, i32 384
  %d = call i32 @tg.shuffle.up(i32 %l, i32 2) #1
  store i32 %d, ptr addrspace(1) %p3
  %odd = trunc i32 %l to i1
  %p4 = getelementptr i8, ptr addrspace(1) %p0, i32 512
  %e = call i32 @tg.ballot(i1 %odd) #1
  store i32 %e, ptr addrspace(1) %p4
  %p5 = getelementptr i8, ptr addrspace(1) %p0, i32 640
  %f = call i1 @tg.vote.any(i1 %odd) #1
  %fi = zext i1 %f to i32
  store i32 %fi, ptr addrspace(1) %p5
  %p6 = getelementptr i8, ptr addrspace(1) %p0, i32 768
  %g = call i1 @tg.vote.all(i1 %odd) #1
  %gi = zext i1 %g to i32
  store i32 %gi, ptr addrspace(1) %p6
  %p7 = getelementptr i8, ptr addrspace(1) %p0, i32 896
  %h = call i32 @tg.redux.add.i32(i32 %l) #1
  store i32 %h, ptr addrspace(1) %p7
  ret void
}

; Sum, signed minimum and maximum, unsigned ones, bits; the number of participants; a lock for one lane;
; 32 increments from 0 to 4 and from 0 again, and the maximum of their results.
define void @atomics(ptr addrspace(1) %out, ptr addrspace(1) %f) #2 {
  %l = call i32 @tg.lane.id()
  %n = sub i32 0, %l
  %x0 = call i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1) %out, i1 true, i32 %l)
  %p1 = getelementptr i8, ptr addrspace(1) %out, i32 4
  %x1 = call i32 @tg.atomic.global.min.i32.gpu(ptr addrspace(1) %p1, i1 true, i32 %n)
  %p2 = getelementptr i8, ptr addrspace(1) %out, i32 8
  %x2 = call i32 @tg.atomic.global.max.i32.gpu(ptr addrspace(1) %p2, i1 true, i32 %n)
  %p3 = getelementptr i8, ptr addrspace(1) %out, i32 12
  %x3 = call i32 @tg.atomic.global.max.u32.gpu(ptr addrspace(1) %p3, i1 true, i32 %l)
  %p4 = getelementptr i8, ptr addrspace(1) %out, i32 16
  %x4 = call i32 @tg.atomic.global.min.u32.gpu(ptr addrspace(1) %p4, i1 true, i32 %n)
  %p5 = getelementptr i8, ptr addrspace(1) %out, i32 20
  %low = icmp ult i32 %l, 16
  %bit = shl i32 1, %l
  %x5 = call i32 @tg.atomic.global.or.i32.gpu(ptr addrspace(1) %p5, i1 %low, i32 %bit)
  %p6 = getelementptr i8, ptr addrspace(1) %out, i32 24
  %x6 = call i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1) %p6, i1 true, i32 1)
  %p7 = getelementptr i8, ptr addrspace(1) %out, i32 28
  %x7 = call i32 @tg.atomic.global.max.u32.gpu(ptr addrspace(1) %p7, i1 true, i32 -1)
  %p8 = getelementptr i8, ptr addrspace(1) %out, i32 32
  %x8 = call i32 @tg.atomic.global.cas.i32.gpu(ptr addrspace(1) %p8, i1 true, i32 0, i32 7)
  %p9 = getelementptr i8, ptr addrspace(1) %out, i32 36
  %inc = call i32 @tg.atomic.global.inc.u32.gpu(ptr addrspace(1) %p9, i1 true, i32 4)
  %p10 = getelementptr i8, ptr addrspace(1) %out, i32 40
  %x10 = call i32 @tg.atomic.global.max.u32.gpu(ptr addrspace(1) %p10, i1 true, i32 %inc)
  %fl = uitofp i32 %l to float
  %x9 = call float @tg.atomic.global.add.f32.gpu(ptr addrspace(1) %f, i1 true, float %fl)
  ret void
}

; Warp 0 writes and continues; warp 1 waits for it.
define void @pairs(ptr addrspace(1) %out) #3 {
  %t = call i32 @tg.thread.id.x()
  %w = call i32 @tg.warp.id() #1
  %s = call ptr addrspace(3) @tg.shared.base()
  %first = icmp eq i32 %w, 0
  br i1 %first, label %a, label %b
a:
  %o = shl i32 %t, 3
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %v = add i32 %t, %t
  %v0 = add i32 %v, 64
  %v1 = add i32 %v, 65
  store i32 %v0, ptr addrspace(3) %p
  %q = getelementptr i8, ptr addrspace(3) %p, i32 4
  store i32 %v1, ptr addrspace(3) %q
  call void @tg.barrier.arrive.1.64() #1
  ret void
b:
  call void @tg.barrier.1.64() #1
  %u = sub i32 %t, 32
  %ob = shl i32 %u, 3
  %pb = getelementptr i8, ptr addrspace(3) %s, i32 %ob
  %x = load <2 x i32>, ptr addrspace(3) %pb
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %ob
  store <2 x i32> %x, ptr addrspace(1) %g
  ret void
}

; Each time, the same one lane of each warp.
define void @elected(ptr addrspace(1) %out) #3 {
  %one = call i1 @tg.nv.elect() #1
  %x = call i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1) %out, i1 %one, i32 1)
  %again = call i1 @tg.nv.elect() #1
  %both = and i1 %one, %again
  %p = getelementptr i8, ptr addrspace(1) %out, i32 4
  %y = call i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1) %p, i1 %both, i32 1)
  ret void
}

; Of 384 threads with 168 registers, one group returns the registers that two others wait for.
define void @registers(ptr addrspace(1) %out) #4 {
  %w = call i32 @tg.warp.id() #1
  %first = icmp ult i32 %w, 4
  br i1 %first, label %a, label %b
a:
  call void @tg.nv.setmaxnreg.dec.24() #1
  ret void
b:
  call void @tg.nv.setmaxnreg.inc.240() #1
  %x = call i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1) %out, i1 true, i32 1)
  ret void
}

; Each lane decides the branch for itself.
define void @ways(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %l = call i32 @tg.lane.id()
  %o = shl i32 %l, 2
  %p = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load i32, ptr addrspace(1) %p
  %big = icmp ugt i32 %v, 15
  br i1 %big, label %a, label %b
a:
  %q = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 1, ptr addrspace(1) %q
  br label %b
b:
  call void @tg.barrier() #1
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="32,1,1" }
attributes #3 = { "tg.maxntid"="64,1,1" }
attributes #4 = { "tg.maxntid"="384,1,1" }
