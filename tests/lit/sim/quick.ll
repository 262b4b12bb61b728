; Quick instruction selection lacks these ops, so the simulator rewrites them: limits and signs.
; RUN: %sim run --kernel numbers --grid 1 %s out:i32[9] f32=3 f32=-2 f32=nan | FileCheck %s
; The parameters are 3, -2 and NaN.
; CHECK: 0: 1077936128 -1073741824 1077936128 -1073741824 1077936128 -1069547520 -3 3 4{{$}}

define void @numbers(ptr addrspace(1) %out, float %three, float %two, float %nan) #0 {
  %a = call float @llvm.maxnum.f32(float %two, float %three)
  store float %a, ptr addrspace(1) %out
  %b = call float @llvm.minnum.f32(float %three, float %two)
  %pb = getelementptr i8, ptr addrspace(1) %out, i64 4
  store float %b, ptr addrspace(1) %pb
  %c = call float @llvm.maxnum.f32(float %nan, float %three)
  %pc = getelementptr i8, ptr addrspace(1) %out, i64 8
  store float %c, ptr addrspace(1) %pc
  %d = call float @llvm.minnum.f32(float %two, float %nan)
  %pd = getelementptr i8, ptr addrspace(1) %out, i64 12
  store float %d, ptr addrspace(1) %pd
  %negative = fneg float %three
  %e = call float @llvm.fabs.f32(float %negative)
  %pe = getelementptr i8, ptr addrspace(1) %out, i64 16
  store float %e, ptr addrspace(1) %pe
  %f = call float @llvm.copysign.f32(float %three, float %two)
  %pf = getelementptr i8, ptr addrspace(1) %out, i64 20
  store float %f, ptr addrspace(1) %pf
  %wide = fpext float %three to double
  %low = fpext float %two to double
  %i = call double @llvm.copysign.f64(double %wide, double %low)
  %j = call double @llvm.fabs.f64(double %i)
  %k = call double @llvm.maxnum.f64(double %low, double %j)
  %l = call double @llvm.minnum.f64(double %k, double 9.0)
  %m = fadd double %l, 1.0
  %pi = getelementptr i8, ptr addrspace(1) %out, i64 24
  %ii = fptosi double %i to i32
  store i32 %ii, ptr addrspace(1) %pi
  %pj = getelementptr i8, ptr addrspace(1) %out, i64 28
  %ji = fptosi double %j to i32
  store i32 %ji, ptr addrspace(1) %pj
  %pm = getelementptr i8, ptr addrspace(1) %out, i64 32
  %mi = fptosi double %m to i32
  store i32 %mi, ptr addrspace(1) %pm
  ret void
}

declare float @llvm.maxnum.f32(float, float)
declare float @llvm.minnum.f32(float, float)
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
declare double @llvm.maxnum.f64(double, double)
declare double @llvm.minnum.f64(double, double)
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)

attributes #0 = { "tg.maxntid"="1,1,1" }
