; Constructs that a portable module may not contain, one in each module: the checker names each and its place.
; RUN: %nv check %s | FileCheck %s
; CHECK: not in a portable module: the instruction, in k:  %x = freeze i32 %n
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = freeze i32 %n
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}poison
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = add i32 %n, poison
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}undef that is not the base of an insert
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = add i32 %n, undef
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}undef that is not the base of an insert
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = insertelement <2 x i32> <i32 0, i32 undef>, i32 %n, i32 0
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}poison
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = insertelement <2 x i32> poison, i32 %n, i32 0
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = zext i32 %n to i128
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = fpext float %f to fp128
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = fptrunc float %f to bfloat
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = insertelement <2 x ptr addrspace(1)> undef, ptr addrspace(1) %p, i32 0
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = insertelement <32 x i32> zeroinitializer, i32 %n, i32 0
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}nneg
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = zext nneg i32 %n to i64
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}or disjoint
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = or disjoint i32 %n, 1
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}icmp samesign
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = icmp samesign ult i32 %n, 1
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}trunc nuw or nsw
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = trunc nuw i32 %n to i8
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}getelementptr nuw
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = getelementptr nuw i8, ptr addrspace(1) %p, i32 %n
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}getelementptr nusw
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = getelementptr nusw i8, ptr addrspace(1) %p, i32 %n
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}getelementptr but of i8
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = getelementptr float, ptr addrspace(1) %p, i32 %n
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}getelementptr but of i8
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = getelementptr { i8, i8 }, ptr addrspace(1) %p, i32 %n, i32 1
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}fast flags here
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = select nnan i1 true, float %f, float 1.0
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}fast flags here
declare float @llvm.sqrt.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call fast float @llvm.sqrt.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  %x = ptrtoint
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = ptrtoint ptr addrspace(1) %p to i64
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  %x = inttoptr
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = inttoptr i32 %n to ptr addrspace(1)
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  %x = addrspacecast
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = addrspacecast ptr addrspace(1) %p to ptr
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a comparison of pointers
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = icmp eq ptr addrspace(1) %p, null
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  %x = alloca
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = alloca i32
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  %x = atomicrmw
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = atomicrmw add ptr addrspace(1) %p, i32 %n monotonic
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  %x = cmpxchg
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = cmpxchg ptr addrspace(1) %p, i32 %n, i32 0 monotonic monotonic
  ret void
}
; -----
; CHECK: not in a portable module: the instruction, in k:  fence
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  fence seq_cst
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}volatile access
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = load volatile i32, ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an atomic access
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = load atomic i32, ptr addrspace(1) %p acquire, align 4
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}volatile access
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  store volatile i32 %n, ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}access to memory of this type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = load i1, ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}access to memory of this type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = load <8 x float>, ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}access to memory of this type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = load ptr addrspace(1), ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}access to memory of this type
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  store { i32, i32 } zeroinitializer, ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}poison in a mask
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = shufflevector <2 x i32> zeroinitializer, <2 x i32> zeroinitializer, <2 x i32> <i32 0, i32 poison>
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a constant expression
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  store i64 ptrtoint (ptr @k to i64), ptr addrspace(1) %p
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.exp2.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.exp2.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.log.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.log.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.sin.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.sin.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.pow.f32(float, float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.pow.f32(float %f, float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.canonicalize.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.canonicalize.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.roundeven.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.roundeven.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.maximum.f32(float, float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.maximum.f32(float %f, float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare float @llvm.ldexp.f32.i32(float, i32)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call float @llvm.ldexp.f32.i32(float %f, i32 %n)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.smax.i32(i32, i32)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.smax.i32(i32 %n, i32 1)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.umin.i32(i32, i32)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.umin.i32(i32 %n, i32 1)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.uadd.sat.i32(i32, i32)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.uadd.sat.i32(i32 %n, i32 1)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.abs.i32(i32, i1)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.abs.i32(i32 %n, i1 false)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.fptosi.sat.i32.f32(float)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.fptosi.sat.i32.f32(float %f)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> zeroinitializer)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare i32 @llvm.nvvm.activemask()
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @llvm.nvvm.activemask()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the intrinsic
declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %p, ptr addrspace(1) %p, i64 4, i1 false)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type
declare bfloat @llvm.fabs.bf16(bfloat)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call bfloat @llvm.fabs.bf16(bfloat 0xR3F80)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an operand bundle
declare void @llvm.assume(i1)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @llvm.assume(i1 true) [ "align"(ptr addrspace(1) %p, i64 8) ]
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a call that is not of a row
define void @g() {
  ret void
}
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @g()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a call that is not of a row
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void asm "", ""()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a function without a row
declare void @tg.nothing()
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @tg.nothing()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a target function of another type
declare i64 @tg.lane.id() nounwind
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i64 @tg.lane.id()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a target function that is not nounwind
declare i32 @tg.lane.id()
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = call i32 @tg.lane.id()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}whose declaration or call is not convergent
declare void @tg.barrier() nounwind
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @tg.barrier()
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a memory attribute on a function with effects
declare void @tg.trap(i1) nounwind memory(none)
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  call void @tg.trap(i1 true)
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}metadata
define void @k(ptr addrspace(1) %p, i32 %n, float %f) {
  %x = add i32 %n, 1, !odd !0
  ret void
}
!0 = !{}
; -----
; CHECK: not in a portable module: {{.*}}a global variable, in the module
@g = addrspace(3) global i32 0
; -----
; CHECK: not in a portable module: {{.*}}an alias
define void @k() {
  ret void
}
@a = alias void (), ptr @k
; -----
; CHECK: not in a portable module: {{.*}}module assembly
module asm "nop"
; -----
; CHECK: not in a portable module: {{.*}}a kernel with a result
define i32 @k() {
  ret i32 0
}
; -----
; CHECK: not in a portable module: {{.*}}a calling convention
define ptx_kernel void @k() {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of the function
define void @k() willreturn {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of the function
define void @k() mustprogress {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of the function
define void @k() nofree {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of the function
define void @k() nosync {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of the function
define void @k() memory(none) {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of the function
define void @k() "other" {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of a parameter
define void @k(ptr addrspace(1) writeonly %p) {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of a parameter
define void @k(ptr addrspace(1) noundef %p) {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}an attribute of a parameter
define void @k(ptr addrspace(1) captures(none) %p) {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type of a parameter
define void @k(<2 x i32> %v) {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}the type of a parameter
define void @k(ptr addrspace(7) %v) {
  ret void
}
; -----
; CHECK: not in a portable module: {{.*}}a debug record
define void @k(i32 %n) !dbg !3 {
    #dbg_value(i32 %n, !5, !DIExpression(), !6)
  ret void
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "a.teg", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "k", file: !1, line: 1, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!4 = !DISubroutineType(types: !{null})
!5 = !DILocalVariable(name: "n", scope: !3, file: !1, line: 1)
!6 = !DILocation(line: 1, scope: !3)
; -----
; CHECK: not in a portable module: the name of a kernel, in k.1
define void @k.1() {
  ret void
}
; -----
; CHECK: not in a portable module: the name of a kernel, in 9
define void @"9"() {
  ret void
}
; -----
; CHECK: not in a portable module: a cast of pointers
define void @k(ptr addrspace(1) %p) {
  %x = bitcast ptr addrspace(1) %p to ptr addrspace(1)
  ret void
}
; -----
; CHECK: not in a portable module: an index of fewer than 32 bits
define void @k(ptr addrspace(1) %p, i16 %n) {
  %x = getelementptr i8, ptr addrspace(1) %p, i16 %n
  ret void
}
; -----
; CHECK: not in a portable module: byval but of bytes
define void @k(ptr byval(i64) %p) {
  ret void
}
; -----
; CHECK: not in a portable module: an ifunc
@f = ifunc void (), ptr @r
define ptr @r() {
  ret ptr null
}
