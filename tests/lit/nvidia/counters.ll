; A loop that carries many registers keeps one counter. Other loops get a register for each address.
; RUN: %nv nvptx sm_80 %s | FileCheck %s

; CHECK-LABEL: entry block(
; CHECK: begin inline asm
; CHECK-NEXT: mov.b64 [[K:%rd[0-9]+]], %rd
; CHECK-NEXT: end inline asm
; CHECK: mad.lo.s64 %rd{{[0-9]+}}, [[K]], 80,
; CHECK: ret;
; CHECK-LABEL: entry scalar(
; CHECK-NOT: inline asm
; CHECK-NOT: mad
; CHECK: ret;

define void @block(ptr addrspace(1) %p, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a0 = phi <4 x float> [ zeroinitializer, %entry ], [ %b0, %loop ]
  %a1 = phi <4 x float> [ zeroinitializer, %entry ], [ %b1, %loop ]
  %a2 = phi <4 x float> [ zeroinitializer, %entry ], [ %b2, %loop ]
  %a3 = phi <4 x float> [ zeroinitializer, %entry ], [ %b3, %loop ]
  %a4 = phi <4 x float> [ zeroinitializer, %entry ], [ %b4, %loop ]
  %o0 = mul i64 %k, 64
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 %o0
  %v0 = load <4 x float>, ptr addrspace(1) %q0, align 16
  %b0 = fadd <4 x float> %a0, %v0
  %o1 = mul i64 %k, 80
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 %o1
  %v1 = load <4 x float>, ptr addrspace(1) %q1, align 16
  %b1 = fadd <4 x float> %a1, %v1
  %o2 = mul i64 %k, 96
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 %o2
  %v2 = load <4 x float>, ptr addrspace(1) %q2, align 16
  %b2 = fadd <4 x float> %a2, %v2
  %o3 = mul i64 %k, 112
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 %o3
  %v3 = load <4 x float>, ptr addrspace(1) %q3, align 16
  %b3 = fadd <4 x float> %a3, %v3
  %o4 = mul i64 %k, 128
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 %o4
  %v4 = load <4 x float>, ptr addrspace(1) %q4, align 16
  %b4 = fadd <4 x float> %a4, %v4
  %next = add i64 %k, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done
done:
  %r0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  store <4 x float> %b0, ptr addrspace(1) %r0, align 16
  %r1 = getelementptr i8, ptr addrspace(1) %p, i64 16
  store <4 x float> %b1, ptr addrspace(1) %r1, align 16
  %r2 = getelementptr i8, ptr addrspace(1) %p, i64 32
  store <4 x float> %b2, ptr addrspace(1) %r2, align 16
  %r3 = getelementptr i8, ptr addrspace(1) %p, i64 48
  store <4 x float> %b3, ptr addrspace(1) %r3, align 16
  %r4 = getelementptr i8, ptr addrspace(1) %p, i64 64
  store <4 x float> %b4, ptr addrspace(1) %r4, align 16
  ret void
}

define void @scalar(ptr addrspace(1) %p, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a0 = phi <4 x float> [ zeroinitializer, %entry ], [ %b0, %loop ]
  %a1 = phi <4 x float> [ zeroinitializer, %entry ], [ %b1, %loop ]
  %o0 = mul i64 %k, 64
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 %o0
  %v0 = load <4 x float>, ptr addrspace(1) %q0, align 16
  %b0 = fadd <4 x float> %a0, %v0
  %o1 = mul i64 %k, 80
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 %o1
  %v1 = load <4 x float>, ptr addrspace(1) %q1, align 16
  %b1 = fadd <4 x float> %a1, %v1
  %next = add i64 %k, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done
done:
  %r0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  store <4 x float> %b0, ptr addrspace(1) %r0, align 16
  %r1 = getelementptr i8, ptr addrspace(1) %p, i64 16
  store <4 x float> %b1, ptr addrspace(1) %r1, align 16
  ret void
}
