; ptxas moves read-only loads across barriers. So in kernels that share an SM, single elements of read-only
; tensors are loaded in place by ordinary loads. Vectors are, too, if registers are few.
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

; A thread of a large CTA has few registers, even if the CTA is alone: after another generator, its loads stay
; in place.
; CHECK-LABEL: entry large(
; CHECK: ld.global.nc.b16
; OTHER-LABEL: entry large(
; OTHER: ld.global.b16
define void @large(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias %q, i1 %on) #4 {
  %h = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p, i1 %on, i16 0)
  store i16 %h, ptr addrspace(1) %q, align 2
  ret void
}

; As many words as registers.
; CHECK-LABEL: entry lots(
; CHECK-COUNT-16: ld.global.v4.b32
; CHECK-LABEL: entry fewer(
; CHECK-COUNT-8: ld.global.nc.v4.b32
define void @lots(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias %q, i1 %on) #0 {
  call void @tg.barrier() #2
  %p0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p0, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x0 = extractvalue { i32, i32, i32, i32 } %v0, 0
  %s0 = add i32 %x0, 0
  %p1 = getelementptr i8, ptr addrspace(1) %p, i64 512
  %v1 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p1, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x1 = extractvalue { i32, i32, i32, i32 } %v1, 0
  %s1 = add i32 %x1, %s0
  %p2 = getelementptr i8, ptr addrspace(1) %p, i64 1024
  %v2 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p2, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x2 = extractvalue { i32, i32, i32, i32 } %v2, 0
  %s2 = add i32 %x2, %s1
  %p3 = getelementptr i8, ptr addrspace(1) %p, i64 1536
  %v3 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p3, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x3 = extractvalue { i32, i32, i32, i32 } %v3, 0
  %s3 = add i32 %x3, %s2
  %p4 = getelementptr i8, ptr addrspace(1) %p, i64 2048
  %v4 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p4, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x4 = extractvalue { i32, i32, i32, i32 } %v4, 0
  %s4 = add i32 %x4, %s3
  %p5 = getelementptr i8, ptr addrspace(1) %p, i64 2560
  %v5 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p5, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x5 = extractvalue { i32, i32, i32, i32 } %v5, 0
  %s5 = add i32 %x5, %s4
  %p6 = getelementptr i8, ptr addrspace(1) %p, i64 3072
  %v6 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p6, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x6 = extractvalue { i32, i32, i32, i32 } %v6, 0
  %s6 = add i32 %x6, %s5
  %p7 = getelementptr i8, ptr addrspace(1) %p, i64 3584
  %v7 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p7, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x7 = extractvalue { i32, i32, i32, i32 } %v7, 0
  %s7 = add i32 %x7, %s6
  %p8 = getelementptr i8, ptr addrspace(1) %p, i64 4096
  %v8 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p8, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x8 = extractvalue { i32, i32, i32, i32 } %v8, 0
  %s8 = add i32 %x8, %s7
  %p9 = getelementptr i8, ptr addrspace(1) %p, i64 4608
  %v9 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p9, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x9 = extractvalue { i32, i32, i32, i32 } %v9, 0
  %s9 = add i32 %x9, %s8
  %p10 = getelementptr i8, ptr addrspace(1) %p, i64 5120
  %v10 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p10, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x10 = extractvalue { i32, i32, i32, i32 } %v10, 0
  %s10 = add i32 %x10, %s9
  %p11 = getelementptr i8, ptr addrspace(1) %p, i64 5632
  %v11 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p11, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x11 = extractvalue { i32, i32, i32, i32 } %v11, 0
  %s11 = add i32 %x11, %s10
  %p12 = getelementptr i8, ptr addrspace(1) %p, i64 6144
  %v12 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p12, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x12 = extractvalue { i32, i32, i32, i32 } %v12, 0
  %s12 = add i32 %x12, %s11
  %p13 = getelementptr i8, ptr addrspace(1) %p, i64 6656
  %v13 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p13, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x13 = extractvalue { i32, i32, i32, i32 } %v13, 0
  %s13 = add i32 %x13, %s12
  %p14 = getelementptr i8, ptr addrspace(1) %p, i64 7168
  %v14 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p14, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x14 = extractvalue { i32, i32, i32, i32 } %v14, 0
  %s14 = add i32 %x14, %s13
  %p15 = getelementptr i8, ptr addrspace(1) %p, i64 7680
  %v15 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p15, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x15 = extractvalue { i32, i32, i32, i32 } %v15, 0
  %s15 = add i32 %x15, %s14
  store i32 %s15, ptr addrspace(1) %q, align 4
  ret void
}

define void @fewer(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias %q, i1 %on) #0 {
  call void @tg.barrier() #2
  %p0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p0, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x0 = extractvalue { i32, i32, i32, i32 } %v0, 0
  %s0 = add i32 %x0, 0
  %p1 = getelementptr i8, ptr addrspace(1) %p, i64 512
  %v1 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p1, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x1 = extractvalue { i32, i32, i32, i32 } %v1, 0
  %s1 = add i32 %x1, %s0
  %p2 = getelementptr i8, ptr addrspace(1) %p, i64 1024
  %v2 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p2, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x2 = extractvalue { i32, i32, i32, i32 } %v2, 0
  %s2 = add i32 %x2, %s1
  %p3 = getelementptr i8, ptr addrspace(1) %p, i64 1536
  %v3 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p3, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x3 = extractvalue { i32, i32, i32, i32 } %v3, 0
  %s3 = add i32 %x3, %s2
  %p4 = getelementptr i8, ptr addrspace(1) %p, i64 2048
  %v4 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p4, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x4 = extractvalue { i32, i32, i32, i32 } %v4, 0
  %s4 = add i32 %x4, %s3
  %p5 = getelementptr i8, ptr addrspace(1) %p, i64 2560
  %v5 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p5, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x5 = extractvalue { i32, i32, i32, i32 } %v5, 0
  %s5 = add i32 %x5, %s4
  %p6 = getelementptr i8, ptr addrspace(1) %p, i64 3072
  %v6 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p6, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x6 = extractvalue { i32, i32, i32, i32 } %v6, 0
  %s6 = add i32 %x6, %s5
  %p7 = getelementptr i8, ptr addrspace(1) %p, i64 3584
  %v7 = call { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1) %p7, i1 %on, i32 0, i32 0, i32 0, i32 0)
  %x7 = extractvalue { i32, i32, i32, i32 } %v7, 0
  %s7 = add i32 %x7, %s6
  store i32 %s7, ptr addrspace(1) %q, align 4
  ret void
}

declare void @tg.barrier() #2
declare i16 @tg.load.global.nc.b16(ptr addrspace(1), i1, i16) #3
declare { i32, i32, i32, i32 } @tg.load.global.nc.b32x4(ptr addrspace(1), i1, i32, i32, i32, i32) #3

attributes #0 = { "tg.maxntid"="256,1,1" "tg.minctasm"="4" }
attributes #1 = { "tg.maxntid"="256,1,1" "tg.minctasm"="1" }
attributes #2 = { convergent nomerge nounwind }
attributes #3 = { nounwind }
attributes #4 = { "tg.maxntid"="1024,1,1" "tg.minctasm"="1" }
