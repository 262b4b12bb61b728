; Faults in kernels that the simulator reports, each with both accesses and the source line.
; RUN: not %sim run --kernel divergent %s | FileCheck %s --check-prefix=DIVERGENT
; DIVERGENT: k.teg:{{4|5}}:5: the lanes of a warp are at different places: thread {{[0-9]+}} (warp 0, lane {{[0-9]+}}) at tg.shuffle.xor (k.teg:{{4|5}}:5), thread {{[0-9]+}} (warp 0, lane {{[0-9]+}}) at tg.shuffle.xor (k.teg:{{4|5}}:5)
; RUN: not %sim run --kernel ended %s | FileCheck %s --check-prefix=ENDED
; ENDED: k.teg:6:5: thread {{.*}} has ended
; RUN: not %sim run --kernel barriers %s | FileCheck %s --check-prefix=BARRIERS
; BARRIERS: the warps of a CTA are at different barriers: thread {{.*}} at tg.barrier (k.teg:{{7|8}}:5), others at tg.barrier (k.teg:{{7|8}}:5)
; RUN: not %sim run --kernel counts %s | FileCheck %s --check-prefix=COUNTS
; COUNTS: barrier 1 is used for {{64|96}} threads by {{.*}} at tg.barrier.1.{{.*}}, and for {{64|96}} at tg.barrier.1.
; RUN: not %sim run --kernel deadlock %s | FileCheck %s --check-prefix=DEADLOCK
; DEADLOCK: k.teg:10:5: deadlock: 1 of 2 warps have ended, none can continue
; DEADLOCK-NEXT: CTA 0 of the cluster, warp 0: at tg.barrier.1.64 (k.teg:10:5), barrier 1: 32 of 64 threads have come
; RUN: not %sim run --kernel phase --shared 64 %s | FileCheck %s --check-prefix=PHASE
; PHASE: k.teg:11:5: deadlock
; PHASE: warp 0: at tg.nv.mbarrier.wait (k.teg:11:5), for parity 0 of the mbarrier at 16, which is in phase 0: 1 of 2 arrivals, 128 bytes are missing
; RUN: not %sim run --kernel parity --shared 64 %s | FileCheck %s --check-prefix=PARITY
; PARITY: operand 1 of tg.nv.mbarrier.wait {{.*}} differs between lanes: 0 for thread 0 (warp 0, lane 0), 1 for thread 1
; RUN: not %sim run --kernel uninitialised --shared 64 %s | FileCheck %s --check-prefix=INIT
; INIT: no mbarrier was initialised at offset 8
; RUN: not %sim run --kernel arrivals --shared 64 %s | FileCheck %s --check-prefix=ARRIVALS
; ARRIVALS: tg.nv.mbarrier.arrive {{.*}} is one arrival more than the 2 that phase 0
; RUN: not %sim run --kernel trap %s in:i32[1]=1 | FileCheck %s --check-prefix=TRAP
; TRAP: k.teg:12:5: thread {{.*}} stops at tg.trap
; RUN: not %sim run --kernel setmax %s | FileCheck %s --check-prefix=SETMAX
; SETMAX: tg.nv.setmaxnreg.inc.24 {{.*}} but the warpgroup has 248 registers a thread
; RUN: not %sim run --kernel pool %s | FileCheck %s --check-prefix=POOL
; POOL: warp 0: at tg.nv.setmaxnreg.inc.240 {{.*}}, for 240 registers of each thread; 0 are free
; RUN: not %sim run --kernel group %s | FileCheck %s --check-prefix=GROUP
; GROUP: tg.nv.wgmma.fence (k.teg:14:5) needs whole warpgroups of 128 threads
; RUN: not %sim run --kernel deadlock --shared 300000 %s | FileCheck %s --check-prefix=SHARED
; SHARED: 300000 bytes of shared memory; the target has 232448
; RUN: not %sim run --kernel phase --target sm_80 %s | FileCheck %s --check-prefix=NEEDS
; NEEDS: tg.nv.{{.*}} needs sm_90, not sm_80

declare i32 @tg.thread.id.x() #0
declare i32 @tg.warp.id() #1
declare i32 @tg.lane.id() #0
declare i32 @tg.shuffle.xor(i32, i32) #1
declare void @tg.barrier() #1
declare void @tg.barrier.1.96() #1
declare void @tg.barrier.1.64() #1
declare void @tg.trap(i1) #0
declare ptr addrspace(3) @tg.shared.base() #0
declare i32 @tg.shared.addr(ptr addrspace(3)) #0
declare void @tg.nv.mbarrier.init(i32, i1, i32) #0
declare void @tg.nv.mbarrier.arrive(i32, i1) #0
declare void @tg.nv.mbarrier.expect_tx(i32, i1, i32) #0
declare void @tg.nv.mbarrier.wait(i32, i32) #1
declare void @tg.nv.setmaxnreg.inc.24() #1
declare void @tg.nv.setmaxnreg.inc.240() #1
declare void @tg.nv.wgmma.fence() #1

define void @divergent() #2 !dbg !3 {
  %lane = call i32 @tg.lane.id()
  %low = icmp ult i32 %lane, 16
  br i1 %low, label %a, label %b
a:
  %x = call i32 @tg.shuffle.xor(i32 %lane, i32 1) #1, !dbg !14
  ret void
b:
  %y = call i32 @tg.shuffle.xor(i32 %lane, i32 1) #1, !dbg !15
  ret void
}

define void @ended() #2 !dbg !20 {
  %lane = call i32 @tg.lane.id()
  %low = icmp ult i32 %lane, 16
  br i1 %low, label %a, label %b
a:
  %x = call i32 @tg.shuffle.xor(i32 %lane, i32 1) #1, !dbg !16
  ret void
b:
  ret void
}

define void @barriers() #3 !dbg !21 {
  %warp = call i32 @tg.warp.id() #1
  %first = icmp eq i32 %warp, 0
  br i1 %first, label %a, label %b
a:
  call void @tg.barrier() #1, !dbg !17
  ret void
b:
  call void @tg.barrier() #1, !dbg !18
  ret void
}

define void @counts() #4 !dbg !22 {
  %warp = call i32 @tg.warp.id() #1
  %first = icmp eq i32 %warp, 0
  br i1 %first, label %a, label %b
a:
  call void @tg.barrier.1.64() #1
  ret void
b:
  call void @tg.barrier.1.96() #1
  ret void
}

define void @deadlock() #3 !dbg !23 {
  %warp = call i32 @tg.warp.id() #1
  %first = icmp eq i32 %warp, 0
  br i1 %first, label %a, label %b
a:
  call void @tg.barrier.1.64() #1, !dbg !30
  ret void
b:
  ret void
}

define void @phase() #2 !dbg !24 {
  %t = call i32 @tg.thread.id.x()
  %one = icmp eq i32 %t, 0
  %p = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %p)
  %bar = add i32 %base, 16
  call void @tg.nv.mbarrier.init(i32 %bar, i1 %one, i32 2)
  call void @tg.barrier() #1
  call void @tg.nv.mbarrier.expect_tx(i32 %bar, i1 %one, i32 128)
  call void @tg.nv.mbarrier.wait(i32 %bar, i32 0) #1, !dbg !31
  ret void
}

define void @parity() #2 {
  %t = call i32 @tg.thread.id.x()
  %one = icmp eq i32 %t, 0
  %p = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %p)
  call void @tg.nv.mbarrier.init(i32 %base, i1 %one, i32 1)
  call void @tg.barrier() #1
  %odd = and i32 %t, 1
  call void @tg.nv.mbarrier.wait(i32 %base, i32 %odd) #1
  ret void
}

define void @uninitialised() #2 {
  %p = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %p)
  %bar = add i32 %base, 8
  call void @tg.nv.mbarrier.arrive(i32 %bar, i1 true)
  ret void
}

define void @arrivals() #2 {
  %t = call i32 @tg.thread.id.x()
  %one = icmp eq i32 %t, 0
  %p = call ptr addrspace(3) @tg.shared.base()
  %base = call i32 @tg.shared.addr(ptr addrspace(3) %p)
  call void @tg.nv.mbarrier.init(i32 %base, i1 %one, i32 2)
  call void @tg.barrier() #1
  call void @tg.nv.mbarrier.expect_tx(i32 %base, i1 %one, i32 16)
  call void @tg.barrier() #1
  call void @tg.nv.mbarrier.arrive(i32 %base, i1 true)
  ret void
}

define void @trap(ptr addrspace(1) %p) #2 !dbg !25 {
  %v = load i32, ptr addrspace(1) %p
  %bad = icmp ne i32 %v, 0
  call void @tg.trap(i1 %bad), !dbg !32
  ret void
}

define void @setmax() #5 {
  call void @tg.nv.setmaxnreg.inc.24() #1
  ret void
}

define void @pool() #6 {
  call void @tg.nv.setmaxnreg.inc.240() #1
  ret void
}

define void @group() #3 !dbg !26 {
  call void @tg.nv.wgmma.fence() #1, !dbg !34
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="32,1,1" }
attributes #3 = { "tg.maxntid"="64,1,1" }
attributes #4 = { "tg.maxntid"="96,1,1" }
attributes #5 = { "tg.maxntid"="128,1,1" }
attributes #6 = { "tg.maxntid"="512,1,1" }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "k.teg", directory: "/d")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "divergent", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!4 = !DISubroutineType(types: !{null})
!14 = !DILocation(line: 4, column: 5, scope: !3)
!15 = !DILocation(line: 5, column: 5, scope: !3)
!16 = !DILocation(line: 6, column: 5, scope: !20)
!17 = !DILocation(line: 7, column: 5, scope: !21)
!18 = !DILocation(line: 8, column: 5, scope: !21)
!20 = distinct !DISubprogram(name: "ended", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!21 = distinct !DISubprogram(name: "barriers", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!22 = distinct !DISubprogram(name: "counts", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!23 = distinct !DISubprogram(name: "deadlock", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!24 = distinct !DISubprogram(name: "phase", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!25 = distinct !DISubprogram(name: "trap", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!26 = distinct !DISubprogram(name: "group", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!30 = !DILocation(line: 10, column: 5, scope: !23)
!31 = !DILocation(line: 11, column: 5, scope: !24)
!32 = !DILocation(line: 12, column: 5, scope: !25)
!34 = !DILocation(line: 14, column: 5, scope: !26)
