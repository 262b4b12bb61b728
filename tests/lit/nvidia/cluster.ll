; Attributes of a launch: threads, CTAs an SM, CTAs of a cluster.
; RUN: %nv check %s | FileCheck %s --check-prefix=CHECKER
; RUN: %nv typed sm_90a %s | FileCheck %s --check-prefix=TYPED
; RUN: %nv nvptx sm_90a %s | FileCheck %s --check-prefix=PTX
; RUN: %nv nvptx sm_120a %s | FileCheck %s --check-prefix=PTX
; RUN: %if libnvvm %{ %nv nvvm sm_90a %s | FileCheck %s --check-prefix=PTX %}
; RUN: %if libnvvm %{ %nv nvvm sm_100a %s | FileCheck %s --check-prefix=PTX %}

; CHECKER: {{^}}portable{{$}}
; TYPED: !{void (i8 addrspace(1)*)* @two, !"kernel", i32 1, !"maxntidx", i32 64, !"maxntidy", i32 2, !"maxntidz", i32 1, !"minctasm", i32 2, !"cluster_dim_x", i32 2, !"cluster_dim_y", i32 1, !"cluster_dim_z", i32 1}
; TYPED: !{void (i8 addrspace(1)*)* @plain, !"kernel", i32 1}
; PTX: .entry two(
; PTX-DAG: .maxntid 64, 2, 1
; PTX-DAG: .minnctapersm 2
; PTX-DAG: .explicitcluster
; PTX-DAG: .reqnctapercluster 2, 1, 1
; PTX: barrier.cluster.arrive.release.aligned;
; PTX: barrier.cluster.wait.acquire.aligned;
; PTX: .entry plain(
; PTX-NOT: .maxntid
; PTX: ret;

declare i32 @tg.cluster.rank() #0
declare void @tg.cluster.arrive() #1
declare void @tg.cluster.wait() #1

define void @two(ptr addrspace(1) %p) #2 {
  %r = call i32 @tg.cluster.rank()
  call void @tg.cluster.arrive() #1
  call void @tg.cluster.wait() #1
  store i32 %r, ptr addrspace(1) %p, align 4
  ret void
}

define void @plain(ptr addrspace(1) %p) {
  store i32 1, ptr addrspace(1) %p, align 4
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { convergent nounwind }
attributes #2 = { "tg.maxntid"="64,2,1" "tg.minctasm"="2" "tg.cluster"="2,1,1" }
