; In kernels that share an SM with others single elements of what nobody writes are loaded where
; they stand, and vectors are where registers are few: read-only loads go across barriers in ptxas.
; RUN: %nv nvptx sm_90a %s | FileCheck %s
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s --check-prefix=OTHER %}

; CHECK-LABEL: entry beside(
; CHECK: bar.sync
; CHECK: ld.global.b16
; CHECK: ld.global.nc.v4.b32
; OTHER-LABEL: entry beside(
; OTHER: ld.global.b16
; OTHER: ld.global.v4.b32
define void @beside(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias %q, i1 %on) #0 {
  call void @tg.barrier() #2
  %h = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p, i1 %on, i16 0)
  %v = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x = extractvalue { i32, i32, i32, i32 } %v, 0
  %y = zext i16 %h to i32
  %z = add i32 %x, %y
  store i32 %z, ptr addrspace(1) %q, align 4
  ret void
}

; CHECK-LABEL: entry alone(
; CHECK: ld.global.nc.b16
; OTHER-LABEL: entry alone(
; OTHER: ld.global.nc.b16
define void @alone(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias %q, i1 %on) #1 {
  %h = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p, i1 %on, i16 0)
  store i16 %h, ptr addrspace(1) %q, align 2
  ret void
}

declare void @tg.barrier() #2
declare i16 @tg.load.global.nc.b16(ptr addrspace(1), i1, i16) #3
declare { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1), i1, i32, i32, i32, i32) #3

attributes #0 = { "tg.maxntid"="256,1,1" "tg.minctasm"="4" }
attributes #1 = { "tg.maxntid"="256,1,1" "tg.minctasm"="1" }
attributes #2 = { convergent nomerge nounwind }
attributes #3 = { nounwind }
