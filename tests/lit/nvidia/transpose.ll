; A tile of 32 x 32 numbers is transposed through shared memory. Rows are padded by one word against bank
; conflicts.
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
; PTX: .visible .entry transpose(
; PTX: st.shared
; PTX: bar.sync 0;
; PTX: ld.shared
; PTX: st.global

declare i32 @tg.thread.id.x() #0
declare i32 @tg.cta.id.x() #0
declare i32 @tg.cta.id.y() #0
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.load.global.nc.b32(ptr addrspace(1), i1, i32) #0
declare void @tg.store.global.b32(ptr addrspace(1), i1, i32) #0
declare void @tg.barrier() #1

define void @transpose(ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y, i32 %m, i32 %n) #2 {
  %t = call i32 @tg.thread.id.x()
  %cx = call i32 @tg.cta.id.x()
  %cy = call i32 @tg.cta.id.y()
  %shared = call ptr addrspace(3) @tg.shared.base()
  %col = and i32 %t, 31
  %row = lshr i32 %t, 5
  %bx = shl i32 %cx, 5
  %by = shl i32 %cy, 5
  %gc = add i32 %bx, %col
  %oc = add i32 %by, %col
  %okc = icmp slt i32 %gc, %n
  %okr = icmp slt i32 %oc, %m
  %r0 = add i32 %row, 0
  %gr0 = add i32 %by, %r0
  %in0 = icmp slt i32 %gr0, %m
  %on0 = and i1 %okc, %in0
  %q0 = mul i32 %gr0, %n
  %g0 = add i32 %q0, %gc
  %w0 = sext i32 %g0 to i64
  %o0 = shl i64 %w0, 2
  %p0 = getelementptr i8, ptr addrspace(1) %x, i64 %o0
  %v0 = call i32 @tg.load.global.nc.b32(ptr addrspace(1) %p0, i1 %on0, i32 0)
  %a0 = mul i32 %r0, 132
  %b0 = shl i32 %col, 2
  %c0 = add i32 %a0, %b0
  %s0 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %c0
  store i32 %v0, ptr addrspace(3) %s0, align 4
  %r8 = add i32 %row, 8
  %gr8 = add i32 %by, %r8
  %in8 = icmp slt i32 %gr8, %m
  %on8 = and i1 %okc, %in8
  %q8 = mul i32 %gr8, %n
  %g8 = add i32 %q8, %gc
  %w8 = sext i32 %g8 to i64
  %o8 = shl i64 %w8, 2
  %p8 = getelementptr i8, ptr addrspace(1) %x, i64 %o8
  %v8 = call i32 @tg.load.global.nc.b32(ptr addrspace(1) %p8, i1 %on8, i32 0)
  %a8 = mul i32 %r8, 132
  %b8 = shl i32 %col, 2
  %c8 = add i32 %a8, %b8
  %s8 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %c8
  store i32 %v8, ptr addrspace(3) %s8, align 4
  %r16 = add i32 %row, 16
  %gr16 = add i32 %by, %r16
  %in16 = icmp slt i32 %gr16, %m
  %on16 = and i1 %okc, %in16
  %q16 = mul i32 %gr16, %n
  %g16 = add i32 %q16, %gc
  %w16 = sext i32 %g16 to i64
  %o16 = shl i64 %w16, 2
  %p16 = getelementptr i8, ptr addrspace(1) %x, i64 %o16
  %v16 = call i32 @tg.load.global.nc.b32(ptr addrspace(1) %p16, i1 %on16, i32 0)
  %a16 = mul i32 %r16, 132
  %b16 = shl i32 %col, 2
  %c16 = add i32 %a16, %b16
  %s16 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %c16
  store i32 %v16, ptr addrspace(3) %s16, align 4
  %r24 = add i32 %row, 24
  %gr24 = add i32 %by, %r24
  %in24 = icmp slt i32 %gr24, %m
  %on24 = and i1 %okc, %in24
  %q24 = mul i32 %gr24, %n
  %g24 = add i32 %q24, %gc
  %w24 = sext i32 %g24 to i64
  %o24 = shl i64 %w24, 2
  %p24 = getelementptr i8, ptr addrspace(1) %x, i64 %o24
  %v24 = call i32 @tg.load.global.nc.b32(ptr addrspace(1) %p24, i1 %on24, i32 0)
  %a24 = mul i32 %r24, 132
  %b24 = shl i32 %col, 2
  %c24 = add i32 %a24, %b24
  %s24 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %c24
  store i32 %v24, ptr addrspace(3) %s24, align 4
  call void @tg.barrier() #1
  %d0 = mul i32 %col, 132
  %e0 = shl i32 %r0, 2
  %f0 = add i32 %d0, %e0
  %h0 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %f0
  %u0 = load i32, ptr addrspace(3) %h0, align 4
  %or0 = add i32 %bx, %r0
  %iny0 = icmp slt i32 %or0, %n
  %ony0 = and i1 %okr, %iny0
  %qy0 = mul i32 %or0, %m
  %gy0 = add i32 %qy0, %oc
  %wy0 = sext i32 %gy0 to i64
  %oy0 = shl i64 %wy0, 2
  %py0 = getelementptr i8, ptr addrspace(1) %y, i64 %oy0
  call void @tg.store.global.b32(ptr addrspace(1) %py0, i1 %ony0, i32 %u0)
  %d8 = mul i32 %col, 132
  %e8 = shl i32 %r8, 2
  %f8 = add i32 %d8, %e8
  %h8 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %f8
  %u8 = load i32, ptr addrspace(3) %h8, align 4
  %or8 = add i32 %bx, %r8
  %iny8 = icmp slt i32 %or8, %n
  %ony8 = and i1 %okr, %iny8
  %qy8 = mul i32 %or8, %m
  %gy8 = add i32 %qy8, %oc
  %wy8 = sext i32 %gy8 to i64
  %oy8 = shl i64 %wy8, 2
  %py8 = getelementptr i8, ptr addrspace(1) %y, i64 %oy8
  call void @tg.store.global.b32(ptr addrspace(1) %py8, i1 %ony8, i32 %u8)
  %d16 = mul i32 %col, 132
  %e16 = shl i32 %r16, 2
  %f16 = add i32 %d16, %e16
  %h16 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %f16
  %u16 = load i32, ptr addrspace(3) %h16, align 4
  %or16 = add i32 %bx, %r16
  %iny16 = icmp slt i32 %or16, %n
  %ony16 = and i1 %okr, %iny16
  %qy16 = mul i32 %or16, %m
  %gy16 = add i32 %qy16, %oc
  %wy16 = sext i32 %gy16 to i64
  %oy16 = shl i64 %wy16, 2
  %py16 = getelementptr i8, ptr addrspace(1) %y, i64 %oy16
  call void @tg.store.global.b32(ptr addrspace(1) %py16, i1 %ony16, i32 %u16)
  %d24 = mul i32 %col, 132
  %e24 = shl i32 %r24, 2
  %f24 = add i32 %d24, %e24
  %h24 = getelementptr inbounds i8, ptr addrspace(3) %shared, i32 %f24
  %u24 = load i32, ptr addrspace(3) %h24, align 4
  %or24 = add i32 %bx, %r24
  %iny24 = icmp slt i32 %or24, %n
  %ony24 = and i1 %okr, %iny24
  %qy24 = mul i32 %or24, %m
  %gy24 = add i32 %qy24, %oc
  %wy24 = sext i32 %gy24 to i64
  %oy24 = shl i64 %wy24, 2
  %py24 = getelementptr i8, ptr addrspace(1) %y, i64 %oy24
  call void @tg.store.global.b32(ptr addrspace(1) %py24, i1 %ony24, i32 %u24)
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="256,1,1" }
