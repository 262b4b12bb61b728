; Line tables: LLVM 7 writes the kind of a subprogram as flags in words, and a location in another file gets a
; lexical block.
; RUN: %nv check %s | FileCheck %s --check-prefix=CHECKER
; RUN: %nv typed sm_80 %s | FileCheck %s --check-prefix=TYPED
; RUN: %nv nvptx sm_80 %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=PTX %}
; RUN: %if libnvvm %{ %nv nvvm sm_120a %s | FileCheck %s --check-prefix=PTX %}

; CHECKER: {{^}}portable{{$}}
; TYPED: define void @k(i8 addrspace(1)* %p) #0 !dbg ![[SP:[0-9]+]] {
; TYPED: %t = call i32 asm {{.*}} #2, !dbg ![[A:[0-9]+]]
; TYPED: %u = add i32 %t, 1, !dbg ![[B:[0-9]+]]
; TYPED: !llvm.dbg.cu = !{![[CU:[0-9]+]]}
; TYPED-DAG: ![[F:[0-9]+]] = !DIFile(filename: "a.teg", directory: "/d")
; TYPED-DAG: ![[CU]] = distinct !DICompileUnit(language: DW_LANG_C99, file: ![[F]], producer: "tegula", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly, enums: !{{[0-9]+}})
; TYPED-DAG: ![[SP]] = distinct !DISubprogram(name: "k", scope: ![[F]], file: ![[F]], line: 3, type: !{{[0-9]+}}, isLocal: false, isDefinition: true, scopeLine: 3, isOptimized: true, unit: ![[CU]])
; TYPED-DAG: ![[A]] = !DILocation(line: 4, column: 5, scope: ![[SP]])
; TYPED-DAG: ![[BLOCK:[0-9]+]] = !DILexicalBlockFile(scope: ![[SP]], file: !{{[0-9]+}}, discriminator: 0)
; TYPED-DAG: ![[B]] = !DILocation(line: 7, column: 1, scope: ![[BLOCK]])
; TYPED: !{i32 2, !"Debug Info Version", i32 3}

; PTX: .entry k(
; PTX: .loc {{[0-9]+}} 4 5
; PTX: .loc {{[0-9]+}} 8 2
; PTX-DAG: a.teg
; PTX-DAG: lib.teg

declare i32 @tg.thread.id.x() nounwind

define void @k(ptr addrspace(1) %p) !dbg !3 {
  %t = call i32 @tg.thread.id.x(), !dbg !6
  %u = add i32 %t, 1, !dbg !7
  store i32 %u, ptr addrspace(1) %p, align 4, !dbg !10
  ret void, !dbg !6
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "a.teg", directory: "/d")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "k", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!4 = !DISubroutineType(types: !{null})
!5 = !DIFile(filename: "lib.teg", directory: "/d")
!6 = !DILocation(line: 4, column: 5, scope: !3)
!7 = !DILocation(line: 7, column: 1, scope: !8)
!8 = !DILexicalBlockFile(scope: !3, file: !5, discriminator: 0)
!10 = !DILocation(line: 8, column: 2, scope: !8)
