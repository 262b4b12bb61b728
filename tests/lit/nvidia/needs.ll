; The message names the function that the architecture lacks.
; RUN: not %nv nvptx sm_80 %s 2>&1 | FileCheck %s
; RUN: not %nv typed sm_120a %s 2>&1 | FileCheck %s
; CHECK: tg.nv.wgmma.fence needs sm_90a, not sm_{{80|120a}}

declare void @tg.nv.wgmma.fence() nounwind convergent

define void @k() {
  call void @tg.nv.wgmma.fence() nounwind convergent
  ret void
}
