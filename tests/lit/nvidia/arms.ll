; The barriers of two branches stay two: no pass merges them before or after the branch.
; RUN: %nv nvptx sm_80 %s | FileCheck %s
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s %}
; RUN: %if libnvvm %{ %nv nvvm sm_120a %s | FileCheck %s %}
; CHECK: .entry k(
; CHECK-COUNT-2: bar.sync 0;
; CHECK-NOT: bar.sync

declare void @tg.barrier() #1
define void @k(ptr addrspace(1) %p, i32 %n) {
  %c = icmp slt i32 %n, 4
  br i1 %c, label %a, label %b
a:
  call void @tg.barrier() #1
  br label %e
b:
  call void @tg.barrier() #1
  br label %e
e:
  %z = phi i32 [ 1, %a ], [ 2, %b ]
  store i32 %z, ptr addrspace(1) %p, align 4
  ret void
}
attributes #1 = { convergent nounwind }
