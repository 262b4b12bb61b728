; Loop invariants stay in a loop that carries many registers: libNVVM would give each invariant part of an
; address a register. Other loops are unchanged.
; REQUIRES: libnvvm
; RUN: %nv nvvm sm_80 %s | FileCheck %s

; CHECK-LABEL: entry block(
; CHECK: [[LOOP:[$]L__BB[0-9_]+]]:
; CHECK: begin inline asm
; CHECK-NEXT: mov.b32
; CHECK-COUNT-5: xor.b32
; CHECK: bra {{.*}}[[LOOP]];
; CHECK-LABEL: entry scalar(
; CHECK: xor.b32
; CHECK: [[LOOP:[$]L__BB[0-9_]+]]:
; CHECK-NOT: inline asm
; CHECK-NOT: xor.b32
; CHECK: bra {{.*}}[[LOOP]];

define void @block(ptr addrspace(3) %p, ptr addrspace(1) %out, i64 %n) {
entry:
  %lane = call i32 @tg.lane.id()
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a0 = phi <4 x float> [ zeroinitializer, %entry ], [ %b0, %loop ]
  %a1 = phi <4 x float> [ zeroinitializer, %entry ], [ %b1, %loop ]
  %a2 = phi <4 x float> [ zeroinitializer, %entry ], [ %b2, %loop ]
  %a3 = phi <4 x float> [ zeroinitializer, %entry ], [ %b3, %loop ]
  %a4 = phi <4 x float> [ zeroinitializer, %entry ], [ %b4, %loop ]
  %slot = mul i64 %k, 4096
  %x0 = xor i32 %lane, 16
  %w0 = zext i32 %x0 to i64
  %o0 = add i64 %slot, %w0
  %q0 = getelementptr i8, ptr addrspace(3) %p, i64 %o0
  %v0 = load <4 x float>, ptr addrspace(3) %q0, align 16
  %b0 = fadd <4 x float> %a0, %v0
  %x1 = xor i32 %lane, 48
  %w1 = zext i32 %x1 to i64
  %o1 = add i64 %slot, %w1
  %q1 = getelementptr i8, ptr addrspace(3) %p, i64 %o1
  %v1 = load <4 x float>, ptr addrspace(3) %q1, align 16
  %b1 = fadd <4 x float> %a1, %v1
  %x2 = xor i32 %lane, 80
  %w2 = zext i32 %x2 to i64
  %o2 = add i64 %slot, %w2
  %q2 = getelementptr i8, ptr addrspace(3) %p, i64 %o2
  %v2 = load <4 x float>, ptr addrspace(3) %q2, align 16
  %b2 = fadd <4 x float> %a2, %v2
  %x3 = xor i32 %lane, 112
  %w3 = zext i32 %x3 to i64
  %o3 = add i64 %slot, %w3
  %q3 = getelementptr i8, ptr addrspace(3) %p, i64 %o3
  %v3 = load <4 x float>, ptr addrspace(3) %q3, align 16
  %b3 = fadd <4 x float> %a3, %v3
  %x4 = xor i32 %lane, 144
  %w4 = zext i32 %x4 to i64
  %o4 = add i64 %slot, %w4
  %q4 = getelementptr i8, ptr addrspace(3) %p, i64 %o4
  %v4 = load <4 x float>, ptr addrspace(3) %q4, align 16
  %b4 = fadd <4 x float> %a4, %v4
  %next = add i64 %k, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done, !llvm.loop !0
done:
  %r0 = getelementptr i8, ptr addrspace(1) %out, i64 0
  store <4 x float> %b0, ptr addrspace(1) %r0, align 16
  %r1 = getelementptr i8, ptr addrspace(1) %out, i64 16
  store <4 x float> %b1, ptr addrspace(1) %r1, align 16
  %r2 = getelementptr i8, ptr addrspace(1) %out, i64 32
  store <4 x float> %b2, ptr addrspace(1) %r2, align 16
  %r3 = getelementptr i8, ptr addrspace(1) %out, i64 48
  store <4 x float> %b3, ptr addrspace(1) %r3, align 16
  %r4 = getelementptr i8, ptr addrspace(1) %out, i64 64
  store <4 x float> %b4, ptr addrspace(1) %r4, align 16
  ret void
}

define void @scalar(ptr addrspace(3) %p, ptr addrspace(1) %out, i64 %n) {
entry:
  %lane = call i32 @tg.lane.id()
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a0 = phi float [ 0.0, %entry ], [ %b0, %loop ]
  %slot = mul i64 %k, 4096
  %x0 = xor i32 %lane, 16
  %w0 = zext i32 %x0 to i64
  %o0 = add i64 %slot, %w0
  %q0 = getelementptr i8, ptr addrspace(3) %p, i64 %o0
  %v0 = load float, ptr addrspace(3) %q0, align 4
  %b0 = fadd float %a0, %v0
  %next = add i64 %k, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done, !llvm.loop !0
done:
  %r0 = getelementptr i8, ptr addrspace(1) %out, i64 0
  store float %b0, ptr addrspace(1) %r0, align 4
  ret void
}

declare i32 @tg.lane.id() #0

attributes #0 = { nounwind memory(none) }

!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
