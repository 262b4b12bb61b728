; A barrier of shared memory orders only shared memory.
; RUN: %sim run --check --kernel shared --shared 256 %s out:i32[64] | FileCheck %s --check-prefix=SHARED
; SHARED: 0: 63 62 61 {{.*}} 2 1 0{{$}}
; RUN: not %sim run --check --kernel tensor %s out:i32[64] out:i32[64] | FileCheck %s --check-prefix=TENSOR
; TENSOR: race: byte {{[0-9]+}} of buffer 0 {{.*}} is read by thread {{.*}}, and written by thread {{.*}} with nothing that orders them
; RUN: %sim run --check --kernel both %s out:i32[64] out:i32[64] | FileCheck %s --check-prefix=BOTH
; BOTH: 1: 63 62 61 {{.*}} 2 1 0{{$}}

declare i32 @tg.thread.id.x() #0
declare void @tg.barrier() #1
declare void @tg.barrier.shared() #1
declare ptr addrspace(3) @tg.shared.base() #0

define void @shared(ptr addrspace(1) %out) #3 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store i32 %t, ptr addrspace(3) %p
  call void @tg.barrier.shared() #1
  %r = sub i32 252, %o
  %q = getelementptr i8, ptr addrspace(3) %s, i32 %r
  %v = load i32, ptr addrspace(3) %q
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 %v, ptr addrspace(1) %g
  ret void
}

define void @tensor(ptr addrspace(1) %x, ptr addrspace(1) %out) #3 {
  %t = call i32 @tg.thread.id.x()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(1) %x, i32 %o
  store i32 %t, ptr addrspace(1) %p
  call void @tg.barrier.shared() #1
  %r = sub i32 252, %o
  %q = getelementptr i8, ptr addrspace(1) %x, i32 %r
  %v = load i32, ptr addrspace(1) %q
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 %v, ptr addrspace(1) %g
  ret void
}

define void @both(ptr addrspace(1) %x, ptr addrspace(1) %out) #3 {
  %t = call i32 @tg.thread.id.x()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(1) %x, i32 %o
  store i32 %t, ptr addrspace(1) %p
  call void @tg.barrier.shared() #1
  call void @tg.barrier() #1
  %r = sub i32 252, %o
  %q = getelementptr i8, ptr addrspace(1) %x, i32 %r
  %v = load i32, ptr addrspace(1) %q
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 %v, ptr addrspace(1) %g
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="32,1,1" }
attributes #3 = { "tg.maxntid"="64,1,1" }
attributes #4 = { "tg.maxntid"="1,1,1" }
