; ptxas takes the result of abs for nonnegative, also that of the least integer. So no integer's abs is left.
; RUN: %nv nvptx sm_80 %s | FileCheck %s
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s %}

; CHECK-LABEL: entry all(
; CHECK-NOT: abs.s
; CHECK-DAG: { .reg .b32 t; neg.s32 t, [[A:%r[0-9]+]]; max.s32 %r{{[0-9]+}}, [[A]], t; }
; CHECK-DAG: { .reg .b64 t; neg.s64 t, [[B:%rd[0-9]+]]; max.s64 %rd{{[0-9]+}}, [[B]], t; }
; CHECK: abs.f32
; CHECK-NOT: abs.s
; CHECK: ret;
define void @all(ptr addrspace(1) %p) {
  %a = load i32, ptr addrspace(1) %p
  %an = sub i32 0, %a
  %ac = icmp slt i32 %a, 0
  %ab = select i1 %ac, i32 %an, i32 %a
  %q = getelementptr i8, ptr addrspace(1) %p, i64 8
  store i32 %ab, ptr addrspace(1) %q
  %b = load i64, ptr addrspace(1) %q
  %bn = sub i64 0, %b
  %bc = icmp slt i64 %b, 0
  %bb = select i1 %bc, i64 %bn, i64 %b
  %r = getelementptr i8, ptr addrspace(1) %p, i64 16
  store i64 %bb, ptr addrspace(1) %r
  %f = load float, ptr addrspace(1) %r
  %fa = call float @llvm.fabs.f32(float %f)
  %s = getelementptr i8, ptr addrspace(1) %p, i64 32
  store float %fa, ptr addrspace(1) %s
  ret void
}
declare float @llvm.fabs.f32(float)
