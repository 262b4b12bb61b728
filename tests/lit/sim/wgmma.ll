; Faulty products of a warpgroup: registers read early, descriptors, missing fences and waits.
; RUN: %sim run --check --kernel good --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=GOOD
; GOOD: 1: 16 16 {{.*}} 16{{$}}
; RUN: %sim run --kernel halves --shared 2048 %s in:f16[1024]=1 out:i32[512] | FileCheck %s --check-prefix=HALVES
; HALVES: 1: 57600 57600 {{.*}} 57600{{$}}
; RUN: not %sim run --kernel early --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=EARLY
; EARLY: accumulator 0 of thread 0 (warp 0, lane 0) at tg.nv.wgmma.wait.0.f32x4 {{.*}}: was changed before the wait for tg.nv.wgmma.m64n8k16.f32.f16.f16.ss
; RUN: %sim sites %s | FileCheck %s --check-prefix=SITES
; SITES: 0: tg.nv.fence.proxy.async.shared in good
; SITES: 2: tg.nv.wgmma.fence in good
; SITES: 3: tg.nv.wgmma.wait.0.f32x4 in good
; RUN: not %sim run --check --skip 0 --kernel good --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=PROXY
; PROXY: no proxy fence: byte {{[0-9]+}} of shared memory is used by the asynchronous proxy at tg.nv.wgmma.m64n8k16{{.*}}, and was written by thread
; RUN: %sim run --skip 0 --kernel good --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=STALE
; STALE: 1: nan nan
; RUN: not %sim run --skip 2 --kernel good --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=FENCE
; FENCE: no wgmma.fence between other use of registers and tg.nv.wgmma.m64n8k16
; RUN: not %sim run --kernel second --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=FENCE
; RUN: not %sim run --skip 3 --kernel good --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=END
; END: the program ends before the product of tg.nv.wgmma.m64n8k16{{.*}} was waited for
; RUN: not %sim run --kernel start --shared 4096 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=START
; START: the descriptor of A of tg.nv.wgmma{{.*}} (start 128, leading 16, stride 1024, swizzle 128): the start is not in the first row of a swizzle atom
; RUN: not %sim run --kernel beyond --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=BEYOND
; BEYOND: the descriptor of A of {{.*}}: a part of the matrix is outside
; RUN: not %sim run --kernel apart --shared 2048 %s in:f16[1024]=1 out:f32[512] | FileCheck %s --check-prefix=APART
; APART: operand 0 of tg.nv.wgmma.m64n8k16{{.*}} differs between thread 0 (warp 0, lane 0) and thread 1 (warp 0, lane 1)

declare i32 @tg.thread.id.x() #0
declare void @tg.barrier() #1
declare ptr addrspace(3) @tg.shared.base() #0
declare void @tg.nv.fence.proxy.async.shared() #0
declare void @tg.nv.wgmma.fence() #1
declare void @tg.nv.wgmma.commit() #1
declare { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64, i64, float, float, float, float, i1) #1
declare { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float, float, float, float) #1
declare { i32, i32, i32, i32 } @tg.nv.wgmma.m64n8k32.i32.i8.i8.ss(i64, i64, i32, i32, i32, i32, i1) #1
declare { i32, i32 } @tg.nv.wgmma.wait.0.i32x2(i32, i32) #1

; A: 64 x 16 as core matrices of 8 rows of 16 bytes; those along k are 1024 bytes apart. B overlaps A.
define void @good(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %r = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 34363932672, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { float, float, float, float } %r, 0
  %r1 = extractvalue { float, float, float, float } %r, 1
  %r2 = extractvalue { float, float, float, float } %r, 2
  %r3 = extractvalue { float, float, float, float } %r, 3
  %w = call { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float %r0, float %r1, float %r2, float %r3) #1
  %w0 = extractvalue { float, float, float, float } %w, 0
  %o0 = add i32 %o, 0
  %q0 = getelementptr i8, ptr addrspace(1) %out, i32 %o0
  store float %w0, ptr addrspace(1) %q0
  %w1 = extractvalue { float, float, float, float } %w, 1
  %o1 = add i32 %o, 4
  %q1 = getelementptr i8, ptr addrspace(1) %out, i32 %o1
  store float %w1, ptr addrspace(1) %q1
  %w2 = extractvalue { float, float, float, float } %w, 2
  %o2 = add i32 %o, 8
  %q2 = getelementptr i8, ptr addrspace(1) %out, i32 %o2
  store float %w2, ptr addrspace(1) %q2
  %w3 = extractvalue { float, float, float, float } %w, 3
  %o3 = add i32 %o, 12
  %q3 = getelementptr i8, ptr addrspace(1) %out, i32 %o3
  store float %w3, ptr addrspace(1) %q3
  ret void
}

; Two statements wait for halves of the results of one product.
define void @halves(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %r = call { i32, i32, i32, i32 } @tg.nv.wgmma.m64n8k32.i32.i8.i8.ss(i64 34363932672, i64 34360262656, i32 0, i32 0, i32 0, i32 0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { i32, i32, i32, i32 } %r, 0
  %r1 = extractvalue { i32, i32, i32, i32 } %r, 1
  %r2 = extractvalue { i32, i32, i32, i32 } %r, 2
  %r3 = extractvalue { i32, i32, i32, i32 } %r, 3
  %u = call { i32, i32 } @tg.nv.wgmma.wait.0.i32x2(i32 %r0, i32 %r1) #1
  %w = call { i32, i32 } @tg.nv.wgmma.wait.0.i32x2(i32 %r2, i32 %r3) #1
  %w0 = extractvalue { i32, i32 } %u, 0
  %o0 = add i32 %o, 0
  %q0 = getelementptr i8, ptr addrspace(1) %out, i32 %o0
  store i32 %w0, ptr addrspace(1) %q0
  %w1 = extractvalue { i32, i32 } %u, 1
  %o1 = add i32 %o, 4
  %q1 = getelementptr i8, ptr addrspace(1) %out, i32 %o1
  store i32 %w1, ptr addrspace(1) %q1
  %w2 = extractvalue { i32, i32 } %w, 0
  %o2 = add i32 %o, 8
  %q2 = getelementptr i8, ptr addrspace(1) %out, i32 %o2
  store i32 %w2, ptr addrspace(1) %q2
  %w3 = extractvalue { i32, i32 } %w, 1
  %o3 = add i32 %o, 12
  %q3 = getelementptr i8, ptr addrspace(1) %out, i32 %o3
  store i32 %w3, ptr addrspace(1) %q3
  ret void
}

; A product that no other product follows starts after a commit without its own fence.
define void @second(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %first = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 34363932672, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 34363932672, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { float, float, float, float } %r, 0
  %r1 = extractvalue { float, float, float, float } %r, 1
  %r2 = extractvalue { float, float, float, float } %r, 2
  %r3 = extractvalue { float, float, float, float } %r, 3
  %w = call { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float %r0, float %r1, float %r2, float %r3) #1
  %w0 = extractvalue { float, float, float, float } %w, 0
  ret void
}

; A register is used before the wait.
define void @early(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %r = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 34363932672, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { float, float, float, float } %r, 0
  %r1 = extractvalue { float, float, float, float } %r, 1
  %r2 = extractvalue { float, float, float, float } %r, 2
  %r3 = extractvalue { float, float, float, float } %r, 3
  %x0 = fadd float %r0, 1.0
  %w = call { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float %x0, float %r1, float %r2, float %r3) #1
  %w0 = extractvalue { float, float, float, float } %w, 0
  %o0 = add i32 %o, 0
  %q0 = getelementptr i8, ptr addrspace(1) %out, i32 %o0
  store float %w0, ptr addrspace(1) %q0
  %w1 = extractvalue { float, float, float, float } %w, 1
  %o1 = add i32 %o, 4
  %q1 = getelementptr i8, ptr addrspace(1) %out, i32 %o1
  store float %w1, ptr addrspace(1) %q1
  %w2 = extractvalue { float, float, float, float } %w, 2
  %o2 = add i32 %o, 8
  %q2 = getelementptr i8, ptr addrspace(1) %out, i32 %o2
  store float %w2, ptr addrspace(1) %q2
  %w3 = extractvalue { float, float, float, float } %w, 3
  %o3 = add i32 %o, 12
  %q3 = getelementptr i8, ptr addrspace(1) %out, i32 %o3
  store float %w3, ptr addrspace(1) %q3
  ret void
}

; The descriptor starts at the second row of an atom.
define void @start(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %r = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 4611686293305360392, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { float, float, float, float } %r, 0
  %r1 = extractvalue { float, float, float, float } %r, 1
  %r2 = extractvalue { float, float, float, float } %r, 2
  %r3 = extractvalue { float, float, float, float } %r, 3
  %w = call { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float %r0, float %r1, float %r2, float %r3) #1
  %w0 = extractvalue { float, float, float, float } %w, 0
  %o0 = add i32 %o, 0
  %q0 = getelementptr i8, ptr addrspace(1) %out, i32 %o0
  store float %w0, ptr addrspace(1) %q0
  %w1 = extractvalue { float, float, float, float } %w, 1
  %o1 = add i32 %o, 4
  %q1 = getelementptr i8, ptr addrspace(1) %out, i32 %o1
  store float %w1, ptr addrspace(1) %q1
  %w2 = extractvalue { float, float, float, float } %w, 2
  %o2 = add i32 %o, 8
  %q2 = getelementptr i8, ptr addrspace(1) %out, i32 %o2
  store float %w2, ptr addrspace(1) %q2
  %w3 = extractvalue { float, float, float, float } %w, 3
  %o3 = add i32 %o, 12
  %q3 = getelementptr i8, ptr addrspace(1) %out, i32 %o3
  store float %w3, ptr addrspace(1) %q3
  ret void
}

; The rows are too far apart.
define void @beyond(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %r = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 137443147776, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { float, float, float, float } %r, 0
  %r1 = extractvalue { float, float, float, float } %r, 1
  %r2 = extractvalue { float, float, float, float } %r, 2
  %r3 = extractvalue { float, float, float, float } %r, 3
  %w = call { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float %r0, float %r1, float %r2, float %r3) #1
  %w0 = extractvalue { float, float, float, float } %w, 0
  %o0 = add i32 %o, 0
  %q0 = getelementptr i8, ptr addrspace(1) %out, i32 %o0
  store float %w0, ptr addrspace(1) %q0
  %w1 = extractvalue { float, float, float, float } %w, 1
  %o1 = add i32 %o, 4
  %q1 = getelementptr i8, ptr addrspace(1) %out, i32 %o1
  store float %w1, ptr addrspace(1) %q1
  %w2 = extractvalue { float, float, float, float } %w, 2
  %o2 = add i32 %o, 8
  %q2 = getelementptr i8, ptr addrspace(1) %out, i32 %o2
  store float %w2, ptr addrspace(1) %q2
  %w3 = extractvalue { float, float, float, float } %w, 3
  %o3 = add i32 %o, 12
  %q3 = getelementptr i8, ptr addrspace(1) %out, i32 %o3
  store float %w3, ptr addrspace(1) %q3
  ret void
}

; Each thread has its own descriptor.
define void @apart(ptr addrspace(1) %in, ptr addrspace(1) %out) #2 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 4
  %g = getelementptr i8, ptr addrspace(1) %in, i32 %o
  %v = load <4 x i32>, ptr addrspace(1) %g
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store <4 x i32> %v, ptr addrspace(3) %p
  call void @tg.nv.fence.proxy.async.shared()
  call void @tg.barrier() #1
  call void @tg.nv.wgmma.fence() #1
  %t64 = zext i32 %t to i64
  %a = add i64 34363932672, %t64
  %r = call { float, float, float, float } @tg.nv.wgmma.m64n8k16.f32.f16.f16.ss(i64 %a, i64 34360262656, float 0.0, float 0.0, float 0.0, float 0.0, i1 true) #1
  call void @tg.nv.wgmma.commit() #1
  %r0 = extractvalue { float, float, float, float } %r, 0
  %r1 = extractvalue { float, float, float, float } %r, 1
  %r2 = extractvalue { float, float, float, float } %r, 2
  %r3 = extractvalue { float, float, float, float } %r, 3
  %w = call { float, float, float, float } @tg.nv.wgmma.wait.0.f32x4(float %r0, float %r1, float %r2, float %r3) #1
  %w0 = extractvalue { float, float, float, float } %w, 0
  %o0 = add i32 %o, 0
  %q0 = getelementptr i8, ptr addrspace(1) %out, i32 %o0
  store float %w0, ptr addrspace(1) %q0
  %w1 = extractvalue { float, float, float, float } %w, 1
  %o1 = add i32 %o, 4
  %q1 = getelementptr i8, ptr addrspace(1) %out, i32 %o1
  store float %w1, ptr addrspace(1) %q1
  %w2 = extractvalue { float, float, float, float } %w, 2
  %o2 = add i32 %o, 8
  %q2 = getelementptr i8, ptr addrspace(1) %out, i32 %o2
  store float %w2, ptr addrspace(1) %q2
  %w3 = extractvalue { float, float, float, float } %w, 3
  %o3 = add i32 %o, 12
  %q3 = getelementptr i8, ptr addrspace(1) %out, i32 %o3
  store float %w3, ptr addrspace(1) %q3
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="128,1,1" }
