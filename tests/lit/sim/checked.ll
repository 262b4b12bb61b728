; Faults that --check finds: races, bytes outside, unwritten bytes, missing proxy fences and waits.
; RUN: %sim run --check --kernel ordered --shared 256 %s out:i32[64] | FileCheck %s --check-prefix=ORDERED
; ORDERED: 0: 63 62 61 {{.*}} 2 1 0{{$}}
; RUN: not %sim run --check --skip 0 --kernel ordered --shared 256 %s out:i32[64] | FileCheck %s --check-prefix=RACE
; RACE: k.teg:{{10|12}}:5: {{(race: byte [0-9]+ of shared memory is (read|written) by thread .* at a (load|store) of 4 bytes .k.teg:1[02]:5., and .* with nothing that orders them)|(byte .* it has not been written yet)}}
; RUN: %sim sites %s | FileCheck %s --check-prefix=SITES
; SITES: 0: tg.barrier in ordered, k.teg:11:5
; RUN: %sim run --check --kernel warp --shared 256 %s out:i32[32] | FileCheck %s --check-prefix=WARP
; WARP: 0: 31 30 {{.*}} 1 0{{$}}
; RUN: not %sim run --check --kernel unwritten --shared 256 %s out:i32[32] | FileCheck %s --check-prefix=UNWRITTEN
; UNWRITTEN: k.teg:20:5: byte {{[0-9]+}} of shared memory is read by thread {{.*}} at a load of 4 bytes (k.teg:20:5), but it has not been written yet
; RUN: not %sim run --check --kernel outside --shared 128 %s out:i32[64] i32=0 | FileCheck %s --check-prefix=SHARED
; SHARED: k.teg:30:5: out of bounds: a store of 4 bytes (k.teg:30:5) of thread {{3[2-9]|[45][0-9]|6[0-3]}} {{.*}} is at offset {{[0-9]+}} of shared memory, which has 128 bytes
; RUN: not %sim run --check --kernel outside --shared 256 %s out:i32[64] i32=8 | FileCheck %s --check-prefix=GLOBAL
; GLOBAL: k.teg:31:5: out of bounds: tg.store.global.b32 (k.teg:31:5) of thread {{6[0-3]|5[6-9]}} {{.*}} accesses 4 bytes at {{.*}}, {{[0-9]+}} bytes outside of buffer 0
; RUN: %sim run --check --kernel outside --shared 256 %s out:i32[64] i32=0 | FileCheck %s --check-prefix=INSIDE
; INSIDE: 0: 0 1 2 {{.*}} 63
; RUN: not %sim run --check --kernel between --grid 2 %s out:i32[1]=0 | FileCheck %s --check-prefix=BETWEEN
; BETWEEN: race: byte {{[0-3]}} of buffer 0 {{.*}} is written by thread {{.*}} of CTA ({{0|1}},0,0) at {{.*}}, and written by another program at
; RUN: %sim run --check --kernel flags --grid 3 %s out:i32[4] in:i32[1]=0 | FileCheck %s --check-prefix=FLAGS
; FLAGS: 0: {{.*}} 3{{$}}
; RUN: not %sim run --check --skip 2 --kernel flags --grid 3 %s out:i32[4] in:i32[1]=0 | FileCheck %s --check-prefix=NOFENCE
; NOFENCE: race: {{.*}} by another program
; RUN: not %sim run --check --kernel misaligned --shared 256 %s | FileCheck %s --check-prefix=ALIGN
; ALIGN: misaligned: a store of 4 bytes {{.*}} of thread 0
; More accesses than the record keeps: the relevant ones stay after others are dropped.
; RUN: %sim run --check --kernel many --shared 256 %s out:i32[64]=0 i32=20000 i32=0 | FileCheck %s --check-prefix=MANY
; MANY: 0: 20000 20000 {{.*}} 20000{{$}}
; RUN: not %sim run --check --kernel many --shared 256 %s out:i32[64]=0 i32=200000 i32=63 | FileCheck %s --check-prefix=MANYRACE
; MANYRACE: k.teg:41:5: race: byte {{[0-9]+}} of shared memory is written by thread {{.*}} at a store of 4 bytes (k.teg:41:5), and written by thread {{.*}} at a store of 4 bytes (k.teg:40:5), with nothing that orders them

declare i32 @tg.thread.id.x() #0
declare i32 @tg.cta.id.x() #0
declare void @tg.barrier() #1
declare void @tg.warp.sync() #1
declare void @tg.fence.acq_rel.gpu() #0
declare i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1), i1, i32) #0
declare ptr addrspace(3) @tg.shared.base() #0
declare void @tg.store.global.b32(ptr addrspace(1), i1, i32) #0
declare i32 @tg.load.global.b32(ptr addrspace(1), i1, i32) #0

; The barrier orders stores of all threads before loads of others.
define void @ordered(ptr addrspace(1) %out) #3 !dbg !3 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store i32 %t, ptr addrspace(3) %p, !dbg !10
  call void @tg.barrier() #1, !dbg !11
  %r = sub i32 252, %o
  %q = getelementptr i8, ptr addrspace(3) %s, i32 %r
  %v = load i32, ptr addrspace(3) %q, !dbg !12
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 %v, ptr addrspace(1) %g
  ret void
}

define void @warp(ptr addrspace(1) %out) #2 !dbg !20 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store i32 %t, ptr addrspace(3) %p
  call void @tg.warp.sync() #1
  %r = sub i32 124, %o
  %q = getelementptr i8, ptr addrspace(3) %s, i32 %r
  %v = load i32, ptr addrspace(3) %q
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 %v, ptr addrspace(1) %g
  ret void
}

define void @unwritten(ptr addrspace(1) %out) #2 !dbg !21 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %v = load i32, ptr addrspace(3) %p, !dbg !13
  store i32 %v, ptr addrspace(1) %out
  ret void
}

define void @outside(ptr addrspace(1) %out, i32 %shift) #3 !dbg !22 {
  %t = call i32 @tg.thread.id.x()
  %s = call ptr addrspace(3) @tg.shared.base()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store i32 %t, ptr addrspace(3) %p, !dbg !14
  %i = add i32 %t, %shift
  %go = shl i32 %i, 2
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %go
  call void @tg.store.global.b32(ptr addrspace(1) %g, i1 true, i32 %t), !dbg !15
  ret void
}

define void @between(ptr addrspace(1) %out) #4 {
  %c = call i32 @tg.cta.id.x()
  store i32 %c, ptr addrspace(1) %out
  ret void
}

; Each program writes, then counts itself. The last one adds up all results.
define void @flags(ptr addrspace(1) %out, ptr addrspace(1) %count) #4 {
  %c = call i32 @tg.cta.id.x()
  %o = shl i32 %c, 2
  %p = getelementptr i8, ptr addrspace(1) %out, i32 %o
  store i32 1, ptr addrspace(1) %p
  call void @tg.fence.acq_rel.gpu()
  %n = call i32 @tg.atomic.global.add.i32.gpu(ptr addrspace(1) %count, i1 true, i32 1)
  call void @tg.fence.acq_rel.gpu()
  %last = icmp eq i32 %n, 2
  %v0 = call i32 @tg.load.global.b32(ptr addrspace(1) %out, i1 %last, i32 0)
  %p1 = getelementptr i8, ptr addrspace(1) %out, i32 4
  %v1 = call i32 @tg.load.global.b32(ptr addrspace(1) %p1, i1 %last, i32 0)
  %p2 = getelementptr i8, ptr addrspace(1) %out, i32 8
  %v2 = call i32 @tg.load.global.b32(ptr addrspace(1) %p2, i1 %last, i32 0)
  %s1 = add i32 %v0, %v1
  %s2 = add i32 %s1, %v2
  %p3 = getelementptr i8, ptr addrspace(1) %out, i32 12
  call void @tg.store.global.b32(ptr addrspace(1) %p3, i1 %last, i32 %s2)
  ret void
}

; A word for each thread, in either direction; then many accesses to words of global memory; then the thread's
; word again, or its neighbour's.
define void @many(ptr addrspace(1) %out, i32 %n, i32 %next) #3 !dbg !23 {
  %s = call ptr addrspace(3) @tg.shared.base()
  %t = call i32 @tg.thread.id.x()
  %o = shl i32 %t, 2
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %o
  store i32 7, ptr addrspace(3) %p, align 4, !dbg !16
  %g = getelementptr i8, ptr addrspace(1) %out, i32 %o
  br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %j, %loop ]
  %v = load i32, ptr addrspace(1) %g, align 4
  %w = add i32 %v, 1
  store i32 %w, ptr addrspace(1) %g, align 4
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %n
  br i1 %more, label %loop, label %end
end:
  %u = add i32 %t, %next
  %m = and i32 %u, 63
  %q = shl i32 %m, 2
  %r = getelementptr i8, ptr addrspace(3) %s, i32 %q
  store i32 %u, ptr addrspace(3) %r, align 4, !dbg !17
  ret void
}

define void @misaligned() #4 {
  %s = call ptr addrspace(3) @tg.shared.base()
  %p = getelementptr i8, ptr addrspace(3) %s, i32 2
  store i32 1, ptr addrspace(3) %p, align 4
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="32,1,1" }
attributes #3 = { "tg.maxntid"="64,1,1" }
attributes #4 = { "tg.maxntid"="1,1,1" }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "k.teg", directory: "/d")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "ordered", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!4 = !DISubroutineType(types: !{null})
!10 = !DILocation(line: 10, column: 5, scope: !3)
!11 = !DILocation(line: 11, column: 5, scope: !3)
!12 = !DILocation(line: 12, column: 5, scope: !3)
!13 = !DILocation(line: 20, column: 5, scope: !21)
!14 = !DILocation(line: 30, column: 5, scope: !22)
!15 = !DILocation(line: 31, column: 5, scope: !22)
!16 = !DILocation(line: 40, column: 5, scope: !23)
!17 = !DILocation(line: 41, column: 5, scope: !23)
!20 = distinct !DISubprogram(name: "warp", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!21 = distinct !DISubprogram(name: "unwritten", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!22 = distinct !DISubprogram(name: "outside", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!23 = distinct !DISubprogram(name: "many", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
