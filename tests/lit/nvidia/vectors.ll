; Vectors, small floats and special constants, which LLVM 22 prints in forms that LLVM 7 does not know.
; RUN: %nv check %s | FileCheck %s --check-prefix=CHECKER
; RUN: %nv typed sm_80 %s | FileCheck %s --check-prefix=TYPED
; RUN: %nv nvptx sm_80 %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=PTX %}
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s --check-prefix=PTX %}
; RUN: %if libnvvm %{ %nv nvvm sm_120a %s | FileCheck %s --check-prefix=PTX %}

; CHECKER: {{^}}portable{{$}}
; TYPED: %gt = fcmp ogt <4 x float> %x, <float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00>
; TYPED: %pick = select <4 x i1> %gt, <4 x float> %x, <4 x float> <float 0x7FF8000000000000, float 0xFFF0000000000000, float -0.000000e+00, float 0x3FB99999A0000000>
; TYPED: %eight = shufflevector <4 x float> %x, <4 x float> %pick, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
; TYPED: fadd <8 x float> %eight, %eight
; TYPED: fmul half %h, 0xHFC00
; TYPED: and i64 %wide, -9223372036854775808
; TYPED: fsub <2 x half> <half 0xH8000, half 0xH8000>, %pair
; TYPED: fadd double %d, 1.000000e-01
; TYPED: or i1 %c, true
; TYPED: switch i64 %wide, label %b [ i64 4294967296, label %a ]
; TYPED: store <16 x i8> {{.*}}, <16 x i8> addrspace(1)* %{{.*}}, align 16
; PTX-NOT: .extern .func
; PTX: .entry vectors(

define void @vectors(ptr addrspace(1) %p, half %h, double %d, i32 %n) {
  %x = load <4 x float>, ptr addrspace(1) %p, align 16
  %gt = fcmp ogt <4 x float> %x, splat (float 2.0)
  %pick = select <4 x i1> %gt, <4 x float> %x, <4 x float> <float 0x7FF8000000000000, float 0xFFF0000000000000, float -0.0, float 0x3FB99999A0000000>
  %eight = shufflevector <4 x float> %x, <4 x float> %pick, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %sum = fadd <8 x float> %eight, %eight
  %s7 = extractelement <8 x float> %sum, i32 7
  %m = fmul half %h, 0xHFC00
  %wide = sext i32 %n to i64
  %top = and i64 %wide, -9223372036854775808
  %bits = bitcast i32 %n to <2 x half>
  %pair = fadd <2 x half> %bits, splat (half 1.0)
  %neg = fneg <2 x half> %pair
  %e = fadd double %d, 0.1
  %c = icmp eq i64 %top, 0
  %t = or i1 %c, true
  switch i64 %wide, label %b [ i64 4294967296, label %a ]

a:
  %bytes = bitcast <4 x float> %x to <16 x i8>
  %more = add <16 x i8> %bytes, splat (i8 -1)
  store <16 x i8> %more, ptr addrspace(1) %p, align 16
  br label %b

b:
  %q = getelementptr inbounds i8, ptr addrspace(1) %p, i64 16
  store <2 x half> %neg, ptr addrspace(1) %q, align 4
  %q1 = getelementptr inbounds i8, ptr addrspace(1) %p, i64 24
  store double %e, ptr addrspace(1) %q1, align 8
  %z = zext i1 %t to i16
  %q2 = getelementptr inbounds i8, ptr addrspace(1) %p, i64 32
  store i16 %z, ptr addrspace(1) %q2, align 2
  %q3 = getelementptr inbounds i8, ptr addrspace(1) %p, i64 34
  store half %m, ptr addrspace(1) %q3, align 2
  %q4 = getelementptr inbounds i8, ptr addrspace(1) %p, i64 36
  store float %s7, ptr addrspace(1) %q4, align 4
  ret void
}
