; A request for CTAs side by side is lowered if it leaves fewer registers than live values need.
; RUN: %nv nvptx sm_80 %s | FileCheck %s
; RUN: %if libnvvm %{ %nv nvvm sm_80 %s | FileCheck %s --check-prefix=OTHER %}

; CHECK-LABEL: entry few(
; CHECK: minnctapersm 16
; CHECK-LABEL: entry many(
; CHECK: minnctapersm {{[89]$}}
; Some more where f8 is converted by many instructions.
; CHECK-LABEL: entry soft(
; CHECK: minnctapersm {{[67]$}}
;
; Each quarter of an SM has a quarter of the registers. Of 25 warps one quarter has 7, which leaves each
; thread 72.
; CHECK-LABEL: entry warp(
; CHECK: minnctapersm 24
;
; Elements of several rows of two tensors are in flight at once, and so are the rows' addresses. With one row
; of each they are not counted.
; CHECK-LABEL: entry rows(
; CHECK: minnctapersm 16
; CHECK-LABEL: entry row(
; CHECK: minnctapersm 20
;
; Another generator orders instructions differently from the measured order: a third more.
; OTHER-LABEL: entry few(
; OTHER: minnctapersm 16
; OTHER-LABEL: entry many(
; OTHER: minnctapersm {{[78]$}}
; OTHER-LABEL: entry soft(
; OTHER: minnctapersm {{[56]$}}
; OTHER-LABEL: entry warp(
; OTHER: minnctapersm 16

define void @few(ptr addrspace(1) %p) #0 {
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = load float, ptr addrspace(1) %q0, align 4
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 4
  %v1 = load float, ptr addrspace(1) %q1, align 4
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 8
  %v2 = load float, ptr addrspace(1) %q2, align 4
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 12
  %v3 = load float, ptr addrspace(1) %q3, align 4
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 16
  %v4 = load float, ptr addrspace(1) %q4, align 4
  %q5 = getelementptr i8, ptr addrspace(1) %p, i64 20
  %v5 = load float, ptr addrspace(1) %q5, align 4
  %w0 = fmul float %v0, %v5
  store float %w0, ptr addrspace(1) %q0, align 4
  %w1 = fmul float %v1, %v4
  store float %w1, ptr addrspace(1) %q1, align 4
  %w2 = fmul float %v2, %v3
  store float %w2, ptr addrspace(1) %q2, align 4
  %w3 = fmul float %v3, %v2
  store float %w3, ptr addrspace(1) %q3, align 4
  %w4 = fmul float %v4, %v1
  store float %w4, ptr addrspace(1) %q4, align 4
  %w5 = fmul float %v5, %v0
  store float %w5, ptr addrspace(1) %q5, align 4
  ret void
}

define void @many(ptr addrspace(1) %p) #0 {
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = load float, ptr addrspace(1) %q0, align 4
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 4
  %v1 = load float, ptr addrspace(1) %q1, align 4
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 8
  %v2 = load float, ptr addrspace(1) %q2, align 4
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 12
  %v3 = load float, ptr addrspace(1) %q3, align 4
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 16
  %v4 = load float, ptr addrspace(1) %q4, align 4
  %q5 = getelementptr i8, ptr addrspace(1) %p, i64 20
  %v5 = load float, ptr addrspace(1) %q5, align 4
  %q6 = getelementptr i8, ptr addrspace(1) %p, i64 24
  %v6 = load float, ptr addrspace(1) %q6, align 4
  %q7 = getelementptr i8, ptr addrspace(1) %p, i64 28
  %v7 = load float, ptr addrspace(1) %q7, align 4
  %q8 = getelementptr i8, ptr addrspace(1) %p, i64 32
  %v8 = load float, ptr addrspace(1) %q8, align 4
  %q9 = getelementptr i8, ptr addrspace(1) %p, i64 36
  %v9 = load float, ptr addrspace(1) %q9, align 4
  %q10 = getelementptr i8, ptr addrspace(1) %p, i64 40
  %v10 = load float, ptr addrspace(1) %q10, align 4
  %q11 = getelementptr i8, ptr addrspace(1) %p, i64 44
  %v11 = load float, ptr addrspace(1) %q11, align 4
  %q12 = getelementptr i8, ptr addrspace(1) %p, i64 48
  %v12 = load float, ptr addrspace(1) %q12, align 4
  %q13 = getelementptr i8, ptr addrspace(1) %p, i64 52
  %v13 = load float, ptr addrspace(1) %q13, align 4
  %q14 = getelementptr i8, ptr addrspace(1) %p, i64 56
  %v14 = load float, ptr addrspace(1) %q14, align 4
  %q15 = getelementptr i8, ptr addrspace(1) %p, i64 60
  %v15 = load float, ptr addrspace(1) %q15, align 4
  %q16 = getelementptr i8, ptr addrspace(1) %p, i64 64
  %v16 = load float, ptr addrspace(1) %q16, align 4
  %q17 = getelementptr i8, ptr addrspace(1) %p, i64 68
  %v17 = load float, ptr addrspace(1) %q17, align 4
  %q18 = getelementptr i8, ptr addrspace(1) %p, i64 72
  %v18 = load float, ptr addrspace(1) %q18, align 4
  %q19 = getelementptr i8, ptr addrspace(1) %p, i64 76
  %v19 = load float, ptr addrspace(1) %q19, align 4
  %q20 = getelementptr i8, ptr addrspace(1) %p, i64 80
  %v20 = load float, ptr addrspace(1) %q20, align 4
  %q21 = getelementptr i8, ptr addrspace(1) %p, i64 84
  %v21 = load float, ptr addrspace(1) %q21, align 4
  %q22 = getelementptr i8, ptr addrspace(1) %p, i64 88
  %v22 = load float, ptr addrspace(1) %q22, align 4
  %q23 = getelementptr i8, ptr addrspace(1) %p, i64 92
  %v23 = load float, ptr addrspace(1) %q23, align 4
  %q24 = getelementptr i8, ptr addrspace(1) %p, i64 96
  %v24 = load float, ptr addrspace(1) %q24, align 4
  %q25 = getelementptr i8, ptr addrspace(1) %p, i64 100
  %v25 = load float, ptr addrspace(1) %q25, align 4
  %q26 = getelementptr i8, ptr addrspace(1) %p, i64 104
  %v26 = load float, ptr addrspace(1) %q26, align 4
  %q27 = getelementptr i8, ptr addrspace(1) %p, i64 108
  %v27 = load float, ptr addrspace(1) %q27, align 4
  %q28 = getelementptr i8, ptr addrspace(1) %p, i64 112
  %v28 = load float, ptr addrspace(1) %q28, align 4
  %q29 = getelementptr i8, ptr addrspace(1) %p, i64 116
  %v29 = load float, ptr addrspace(1) %q29, align 4
  %q30 = getelementptr i8, ptr addrspace(1) %p, i64 120
  %v30 = load float, ptr addrspace(1) %q30, align 4
  %q31 = getelementptr i8, ptr addrspace(1) %p, i64 124
  %v31 = load float, ptr addrspace(1) %q31, align 4
  %q32 = getelementptr i8, ptr addrspace(1) %p, i64 128
  %v32 = load float, ptr addrspace(1) %q32, align 4
  %q33 = getelementptr i8, ptr addrspace(1) %p, i64 132
  %v33 = load float, ptr addrspace(1) %q33, align 4
  %q34 = getelementptr i8, ptr addrspace(1) %p, i64 136
  %v34 = load float, ptr addrspace(1) %q34, align 4
  %q35 = getelementptr i8, ptr addrspace(1) %p, i64 140
  %v35 = load float, ptr addrspace(1) %q35, align 4
  %q36 = getelementptr i8, ptr addrspace(1) %p, i64 144
  %v36 = load float, ptr addrspace(1) %q36, align 4
  %q37 = getelementptr i8, ptr addrspace(1) %p, i64 148
  %v37 = load float, ptr addrspace(1) %q37, align 4
  %q38 = getelementptr i8, ptr addrspace(1) %p, i64 152
  %v38 = load float, ptr addrspace(1) %q38, align 4
  %q39 = getelementptr i8, ptr addrspace(1) %p, i64 156
  %v39 = load float, ptr addrspace(1) %q39, align 4
  %q40 = getelementptr i8, ptr addrspace(1) %p, i64 160
  %v40 = load float, ptr addrspace(1) %q40, align 4
  %q41 = getelementptr i8, ptr addrspace(1) %p, i64 164
  %v41 = load float, ptr addrspace(1) %q41, align 4
  %q42 = getelementptr i8, ptr addrspace(1) %p, i64 168
  %v42 = load float, ptr addrspace(1) %q42, align 4
  %q43 = getelementptr i8, ptr addrspace(1) %p, i64 172
  %v43 = load float, ptr addrspace(1) %q43, align 4
  %q44 = getelementptr i8, ptr addrspace(1) %p, i64 176
  %v44 = load float, ptr addrspace(1) %q44, align 4
  %q45 = getelementptr i8, ptr addrspace(1) %p, i64 180
  %v45 = load float, ptr addrspace(1) %q45, align 4
  %q46 = getelementptr i8, ptr addrspace(1) %p, i64 184
  %v46 = load float, ptr addrspace(1) %q46, align 4
  %q47 = getelementptr i8, ptr addrspace(1) %p, i64 188
  %v47 = load float, ptr addrspace(1) %q47, align 4
  %w0 = fmul float %v0, %v47
  store float %w0, ptr addrspace(1) %q0, align 4
  %w1 = fmul float %v1, %v46
  store float %w1, ptr addrspace(1) %q1, align 4
  %w2 = fmul float %v2, %v45
  store float %w2, ptr addrspace(1) %q2, align 4
  %w3 = fmul float %v3, %v44
  store float %w3, ptr addrspace(1) %q3, align 4
  %w4 = fmul float %v4, %v43
  store float %w4, ptr addrspace(1) %q4, align 4
  %w5 = fmul float %v5, %v42
  store float %w5, ptr addrspace(1) %q5, align 4
  %w6 = fmul float %v6, %v41
  store float %w6, ptr addrspace(1) %q6, align 4
  %w7 = fmul float %v7, %v40
  store float %w7, ptr addrspace(1) %q7, align 4
  %w8 = fmul float %v8, %v39
  store float %w8, ptr addrspace(1) %q8, align 4
  %w9 = fmul float %v9, %v38
  store float %w9, ptr addrspace(1) %q9, align 4
  %w10 = fmul float %v10, %v37
  store float %w10, ptr addrspace(1) %q10, align 4
  %w11 = fmul float %v11, %v36
  store float %w11, ptr addrspace(1) %q11, align 4
  %w12 = fmul float %v12, %v35
  store float %w12, ptr addrspace(1) %q12, align 4
  %w13 = fmul float %v13, %v34
  store float %w13, ptr addrspace(1) %q13, align 4
  %w14 = fmul float %v14, %v33
  store float %w14, ptr addrspace(1) %q14, align 4
  %w15 = fmul float %v15, %v32
  store float %w15, ptr addrspace(1) %q15, align 4
  %w16 = fmul float %v16, %v31
  store float %w16, ptr addrspace(1) %q16, align 4
  %w17 = fmul float %v17, %v30
  store float %w17, ptr addrspace(1) %q17, align 4
  %w18 = fmul float %v18, %v29
  store float %w18, ptr addrspace(1) %q18, align 4
  %w19 = fmul float %v19, %v28
  store float %w19, ptr addrspace(1) %q19, align 4
  %w20 = fmul float %v20, %v27
  store float %w20, ptr addrspace(1) %q20, align 4
  %w21 = fmul float %v21, %v26
  store float %w21, ptr addrspace(1) %q21, align 4
  %w22 = fmul float %v22, %v25
  store float %w22, ptr addrspace(1) %q22, align 4
  %w23 = fmul float %v23, %v24
  store float %w23, ptr addrspace(1) %q23, align 4
  %w24 = fmul float %v24, %v23
  store float %w24, ptr addrspace(1) %q24, align 4
  %w25 = fmul float %v25, %v22
  store float %w25, ptr addrspace(1) %q25, align 4
  %w26 = fmul float %v26, %v21
  store float %w26, ptr addrspace(1) %q26, align 4
  %w27 = fmul float %v27, %v20
  store float %w27, ptr addrspace(1) %q27, align 4
  %w28 = fmul float %v28, %v19
  store float %w28, ptr addrspace(1) %q28, align 4
  %w29 = fmul float %v29, %v18
  store float %w29, ptr addrspace(1) %q29, align 4
  %w30 = fmul float %v30, %v17
  store float %w30, ptr addrspace(1) %q30, align 4
  %w31 = fmul float %v31, %v16
  store float %w31, ptr addrspace(1) %q31, align 4
  %w32 = fmul float %v32, %v15
  store float %w32, ptr addrspace(1) %q32, align 4
  %w33 = fmul float %v33, %v14
  store float %w33, ptr addrspace(1) %q33, align 4
  %w34 = fmul float %v34, %v13
  store float %w34, ptr addrspace(1) %q34, align 4
  %w35 = fmul float %v35, %v12
  store float %w35, ptr addrspace(1) %q35, align 4
  %w36 = fmul float %v36, %v11
  store float %w36, ptr addrspace(1) %q36, align 4
  %w37 = fmul float %v37, %v10
  store float %w37, ptr addrspace(1) %q37, align 4
  %w38 = fmul float %v38, %v9
  store float %w38, ptr addrspace(1) %q38, align 4
  %w39 = fmul float %v39, %v8
  store float %w39, ptr addrspace(1) %q39, align 4
  %w40 = fmul float %v40, %v7
  store float %w40, ptr addrspace(1) %q40, align 4
  %w41 = fmul float %v41, %v6
  store float %w41, ptr addrspace(1) %q41, align 4
  %w42 = fmul float %v42, %v5
  store float %w42, ptr addrspace(1) %q42, align 4
  %w43 = fmul float %v43, %v4
  store float %w43, ptr addrspace(1) %q43, align 4
  %w44 = fmul float %v44, %v3
  store float %w44, ptr addrspace(1) %q44, align 4
  %w45 = fmul float %v45, %v2
  store float %w45, ptr addrspace(1) %q45, align 4
  %w46 = fmul float %v46, %v1
  store float %w46, ptr addrspace(1) %q46, align 4
  %w47 = fmul float %v47, %v0
  store float %w47, ptr addrspace(1) %q47, align 4
  ret void
}

define void @soft(ptr addrspace(1) %p) #4 {
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = load float, ptr addrspace(1) %q0, align 4
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 4
  %v1 = load float, ptr addrspace(1) %q1, align 4
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 8
  %v2 = load float, ptr addrspace(1) %q2, align 4
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 12
  %v3 = load float, ptr addrspace(1) %q3, align 4
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 16
  %v4 = load float, ptr addrspace(1) %q4, align 4
  %q5 = getelementptr i8, ptr addrspace(1) %p, i64 20
  %v5 = load float, ptr addrspace(1) %q5, align 4
  %q6 = getelementptr i8, ptr addrspace(1) %p, i64 24
  %v6 = load float, ptr addrspace(1) %q6, align 4
  %q7 = getelementptr i8, ptr addrspace(1) %p, i64 28
  %v7 = load float, ptr addrspace(1) %q7, align 4
  %q8 = getelementptr i8, ptr addrspace(1) %p, i64 32
  %v8 = load float, ptr addrspace(1) %q8, align 4
  %q9 = getelementptr i8, ptr addrspace(1) %p, i64 36
  %v9 = load float, ptr addrspace(1) %q9, align 4
  %q10 = getelementptr i8, ptr addrspace(1) %p, i64 40
  %v10 = load float, ptr addrspace(1) %q10, align 4
  %q11 = getelementptr i8, ptr addrspace(1) %p, i64 44
  %v11 = load float, ptr addrspace(1) %q11, align 4
  %q12 = getelementptr i8, ptr addrspace(1) %p, i64 48
  %v12 = load float, ptr addrspace(1) %q12, align 4
  %q13 = getelementptr i8, ptr addrspace(1) %p, i64 52
  %v13 = load float, ptr addrspace(1) %q13, align 4
  %q14 = getelementptr i8, ptr addrspace(1) %p, i64 56
  %v14 = load float, ptr addrspace(1) %q14, align 4
  %q15 = getelementptr i8, ptr addrspace(1) %p, i64 60
  %v15 = load float, ptr addrspace(1) %q15, align 4
  %q16 = getelementptr i8, ptr addrspace(1) %p, i64 64
  %v16 = load float, ptr addrspace(1) %q16, align 4
  %q17 = getelementptr i8, ptr addrspace(1) %p, i64 68
  %v17 = load float, ptr addrspace(1) %q17, align 4
  %q18 = getelementptr i8, ptr addrspace(1) %p, i64 72
  %v18 = load float, ptr addrspace(1) %q18, align 4
  %q19 = getelementptr i8, ptr addrspace(1) %p, i64 76
  %v19 = load float, ptr addrspace(1) %q19, align 4
  %q20 = getelementptr i8, ptr addrspace(1) %p, i64 80
  %v20 = load float, ptr addrspace(1) %q20, align 4
  %q21 = getelementptr i8, ptr addrspace(1) %p, i64 84
  %v21 = load float, ptr addrspace(1) %q21, align 4
  %q22 = getelementptr i8, ptr addrspace(1) %p, i64 88
  %v22 = load float, ptr addrspace(1) %q22, align 4
  %q23 = getelementptr i8, ptr addrspace(1) %p, i64 92
  %v23 = load float, ptr addrspace(1) %q23, align 4
  %q24 = getelementptr i8, ptr addrspace(1) %p, i64 96
  %v24 = load float, ptr addrspace(1) %q24, align 4
  %q25 = getelementptr i8, ptr addrspace(1) %p, i64 100
  %v25 = load float, ptr addrspace(1) %q25, align 4
  %q26 = getelementptr i8, ptr addrspace(1) %p, i64 104
  %v26 = load float, ptr addrspace(1) %q26, align 4
  %q27 = getelementptr i8, ptr addrspace(1) %p, i64 108
  %v27 = load float, ptr addrspace(1) %q27, align 4
  %q28 = getelementptr i8, ptr addrspace(1) %p, i64 112
  %v28 = load float, ptr addrspace(1) %q28, align 4
  %q29 = getelementptr i8, ptr addrspace(1) %p, i64 116
  %v29 = load float, ptr addrspace(1) %q29, align 4
  %q30 = getelementptr i8, ptr addrspace(1) %p, i64 120
  %v30 = load float, ptr addrspace(1) %q30, align 4
  %q31 = getelementptr i8, ptr addrspace(1) %p, i64 124
  %v31 = load float, ptr addrspace(1) %q31, align 4
  %q32 = getelementptr i8, ptr addrspace(1) %p, i64 128
  %v32 = load float, ptr addrspace(1) %q32, align 4
  %q33 = getelementptr i8, ptr addrspace(1) %p, i64 132
  %v33 = load float, ptr addrspace(1) %q33, align 4
  %q34 = getelementptr i8, ptr addrspace(1) %p, i64 136
  %v34 = load float, ptr addrspace(1) %q34, align 4
  %q35 = getelementptr i8, ptr addrspace(1) %p, i64 140
  %v35 = load float, ptr addrspace(1) %q35, align 4
  %q36 = getelementptr i8, ptr addrspace(1) %p, i64 144
  %v36 = load float, ptr addrspace(1) %q36, align 4
  %q37 = getelementptr i8, ptr addrspace(1) %p, i64 148
  %v37 = load float, ptr addrspace(1) %q37, align 4
  %q38 = getelementptr i8, ptr addrspace(1) %p, i64 152
  %v38 = load float, ptr addrspace(1) %q38, align 4
  %q39 = getelementptr i8, ptr addrspace(1) %p, i64 156
  %v39 = load float, ptr addrspace(1) %q39, align 4
  %q40 = getelementptr i8, ptr addrspace(1) %p, i64 160
  %v40 = load float, ptr addrspace(1) %q40, align 4
  %q41 = getelementptr i8, ptr addrspace(1) %p, i64 164
  %v41 = load float, ptr addrspace(1) %q41, align 4
  %q42 = getelementptr i8, ptr addrspace(1) %p, i64 168
  %v42 = load float, ptr addrspace(1) %q42, align 4
  %q43 = getelementptr i8, ptr addrspace(1) %p, i64 172
  %v43 = load float, ptr addrspace(1) %q43, align 4
  %q44 = getelementptr i8, ptr addrspace(1) %p, i64 176
  %v44 = load float, ptr addrspace(1) %q44, align 4
  %q45 = getelementptr i8, ptr addrspace(1) %p, i64 180
  %v45 = load float, ptr addrspace(1) %q45, align 4
  %q46 = getelementptr i8, ptr addrspace(1) %p, i64 184
  %v46 = load float, ptr addrspace(1) %q46, align 4
  %q47 = getelementptr i8, ptr addrspace(1) %p, i64 188
  %v47 = load float, ptr addrspace(1) %q47, align 4
  %w0 = fmul float %v0, %v47
  store float %w0, ptr addrspace(1) %q0, align 4
  %w1 = fmul float %v1, %v46
  store float %w1, ptr addrspace(1) %q1, align 4
  %w2 = fmul float %v2, %v45
  store float %w2, ptr addrspace(1) %q2, align 4
  %w3 = fmul float %v3, %v44
  store float %w3, ptr addrspace(1) %q3, align 4
  %w4 = fmul float %v4, %v43
  store float %w4, ptr addrspace(1) %q4, align 4
  %w5 = fmul float %v5, %v42
  store float %w5, ptr addrspace(1) %q5, align 4
  %w6 = fmul float %v6, %v41
  store float %w6, ptr addrspace(1) %q6, align 4
  %w7 = fmul float %v7, %v40
  store float %w7, ptr addrspace(1) %q7, align 4
  %w8 = fmul float %v8, %v39
  store float %w8, ptr addrspace(1) %q8, align 4
  %w9 = fmul float %v9, %v38
  store float %w9, ptr addrspace(1) %q9, align 4
  %w10 = fmul float %v10, %v37
  store float %w10, ptr addrspace(1) %q10, align 4
  %w11 = fmul float %v11, %v36
  store float %w11, ptr addrspace(1) %q11, align 4
  %w12 = fmul float %v12, %v35
  store float %w12, ptr addrspace(1) %q12, align 4
  %w13 = fmul float %v13, %v34
  store float %w13, ptr addrspace(1) %q13, align 4
  %w14 = fmul float %v14, %v33
  store float %w14, ptr addrspace(1) %q14, align 4
  %w15 = fmul float %v15, %v32
  store float %w15, ptr addrspace(1) %q15, align 4
  %w16 = fmul float %v16, %v31
  store float %w16, ptr addrspace(1) %q16, align 4
  %w17 = fmul float %v17, %v30
  store float %w17, ptr addrspace(1) %q17, align 4
  %w18 = fmul float %v18, %v29
  store float %w18, ptr addrspace(1) %q18, align 4
  %w19 = fmul float %v19, %v28
  store float %w19, ptr addrspace(1) %q19, align 4
  %w20 = fmul float %v20, %v27
  store float %w20, ptr addrspace(1) %q20, align 4
  %w21 = fmul float %v21, %v26
  store float %w21, ptr addrspace(1) %q21, align 4
  %w22 = fmul float %v22, %v25
  store float %w22, ptr addrspace(1) %q22, align 4
  %w23 = fmul float %v23, %v24
  store float %w23, ptr addrspace(1) %q23, align 4
  %w24 = fmul float %v24, %v23
  store float %w24, ptr addrspace(1) %q24, align 4
  %w25 = fmul float %v25, %v22
  store float %w25, ptr addrspace(1) %q25, align 4
  %w26 = fmul float %v26, %v21
  store float %w26, ptr addrspace(1) %q26, align 4
  %w27 = fmul float %v27, %v20
  store float %w27, ptr addrspace(1) %q27, align 4
  %w28 = fmul float %v28, %v19
  store float %w28, ptr addrspace(1) %q28, align 4
  %w29 = fmul float %v29, %v18
  store float %w29, ptr addrspace(1) %q29, align 4
  %w30 = fmul float %v30, %v17
  store float %w30, ptr addrspace(1) %q30, align 4
  %w31 = fmul float %v31, %v16
  store float %w31, ptr addrspace(1) %q31, align 4
  %w32 = fmul float %v32, %v15
  store float %w32, ptr addrspace(1) %q32, align 4
  %w33 = fmul float %v33, %v14
  store float %w33, ptr addrspace(1) %q33, align 4
  %w34 = fmul float %v34, %v13
  store float %w34, ptr addrspace(1) %q34, align 4
  %w35 = fmul float %v35, %v12
  store float %w35, ptr addrspace(1) %q35, align 4
  %w36 = fmul float %v36, %v11
  store float %w36, ptr addrspace(1) %q36, align 4
  %w37 = fmul float %v37, %v10
  store float %w37, ptr addrspace(1) %q37, align 4
  %w38 = fmul float %v38, %v9
  store float %w38, ptr addrspace(1) %q38, align 4
  %w39 = fmul float %v39, %v8
  store float %w39, ptr addrspace(1) %q39, align 4
  %w40 = fmul float %v40, %v7
  store float %w40, ptr addrspace(1) %q40, align 4
  %w41 = fmul float %v41, %v6
  store float %w41, ptr addrspace(1) %q41, align 4
  %w42 = fmul float %v42, %v5
  store float %w42, ptr addrspace(1) %q42, align 4
  %w43 = fmul float %v43, %v4
  store float %w43, ptr addrspace(1) %q43, align 4
  %w44 = fmul float %v44, %v3
  store float %w44, ptr addrspace(1) %q44, align 4
  %w45 = fmul float %v45, %v2
  store float %w45, ptr addrspace(1) %q45, align 4
  %w46 = fmul float %v46, %v1
  store float %w46, ptr addrspace(1) %q46, align 4
  %w47 = fmul float %v47, %v0
  store float %w47, ptr addrspace(1) %q47, align 4
  ret void
}

define void @warp(ptr addrspace(1) %p) #1 {
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = load <4 x float>, ptr addrspace(1) %q0, align 16
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 16
  %v1 = load <4 x float>, ptr addrspace(1) %q1, align 16
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 32
  %v2 = load <4 x float>, ptr addrspace(1) %q2, align 16
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 48
  %v3 = load <4 x float>, ptr addrspace(1) %q3, align 16
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 64
  %v4 = load <4 x float>, ptr addrspace(1) %q4, align 16
  %q5 = getelementptr i8, ptr addrspace(1) %p, i64 80
  %v5 = load <4 x float>, ptr addrspace(1) %q5, align 16
  %q6 = getelementptr i8, ptr addrspace(1) %p, i64 96
  %v6 = load <4 x float>, ptr addrspace(1) %q6, align 16
  %q7 = getelementptr i8, ptr addrspace(1) %p, i64 112
  %v7 = load <4 x float>, ptr addrspace(1) %q7, align 16
  %q8 = getelementptr i8, ptr addrspace(1) %p, i64 128
  %v8 = load <4 x float>, ptr addrspace(1) %q8, align 16
  %q9 = getelementptr i8, ptr addrspace(1) %p, i64 144
  %v9 = load <4 x float>, ptr addrspace(1) %q9, align 16
  %q10 = getelementptr i8, ptr addrspace(1) %p, i64 160
  %v10 = load <4 x float>, ptr addrspace(1) %q10, align 16
  %q11 = getelementptr i8, ptr addrspace(1) %p, i64 176
  %v11 = load <4 x float>, ptr addrspace(1) %q11, align 16
  %q12 = getelementptr i8, ptr addrspace(1) %p, i64 192
  %v12 = load <4 x float>, ptr addrspace(1) %q12, align 16
  %q13 = getelementptr i8, ptr addrspace(1) %p, i64 208
  %v13 = load <4 x float>, ptr addrspace(1) %q13, align 16
  %q14 = getelementptr i8, ptr addrspace(1) %p, i64 224
  %v14 = load <4 x float>, ptr addrspace(1) %q14, align 16
  %q15 = getelementptr i8, ptr addrspace(1) %p, i64 240
  %v15 = load <4 x float>, ptr addrspace(1) %q15, align 16
  %q16 = getelementptr i8, ptr addrspace(1) %p, i64 256
  %v16 = load <4 x float>, ptr addrspace(1) %q16, align 16
  %q17 = getelementptr i8, ptr addrspace(1) %p, i64 272
  %v17 = load <4 x float>, ptr addrspace(1) %q17, align 16
  store <4 x float> %v17, ptr addrspace(1) %q0, align 16
  store <4 x float> %v16, ptr addrspace(1) %q1, align 16
  store <4 x float> %v15, ptr addrspace(1) %q2, align 16
  store <4 x float> %v14, ptr addrspace(1) %q3, align 16
  store <4 x float> %v13, ptr addrspace(1) %q4, align 16
  store <4 x float> %v12, ptr addrspace(1) %q5, align 16
  store <4 x float> %v11, ptr addrspace(1) %q6, align 16
  store <4 x float> %v10, ptr addrspace(1) %q7, align 16
  store <4 x float> %v9, ptr addrspace(1) %q8, align 16
  store <4 x float> %v8, ptr addrspace(1) %q9, align 16
  store <4 x float> %v7, ptr addrspace(1) %q10, align 16
  store <4 x float> %v6, ptr addrspace(1) %q11, align 16
  store <4 x float> %v5, ptr addrspace(1) %q12, align 16
  store <4 x float> %v4, ptr addrspace(1) %q13, align 16
  store <4 x float> %v3, ptr addrspace(1) %q14, align 16
  store <4 x float> %v2, ptr addrspace(1) %q15, align 16
  store <4 x float> %v1, ptr addrspace(1) %q16, align 16
  store <4 x float> %v0, ptr addrspace(1) %q17, align 16
  ret void
}
define void @rows(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias readonly %q, ptr addrspace(1) noalias %o, i64 %s, i1 %on) #2 {
  %at0 = mul i64 %s, 1
  %p0 = getelementptr i8, ptr addrspace(1) %p, i64 %at0
  %p0_0 = getelementptr i8, ptr addrspace(1) %p0, i64 0
  %v0 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_0, i1 %on, i16 0)
  %s0 = add i16 %v0, 0
  %p0_1 = getelementptr i8, ptr addrspace(1) %p0, i64 2
  %v1 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_1, i1 %on, i16 0)
  %s1 = add i16 %v1, %s0
  %p0_2 = getelementptr i8, ptr addrspace(1) %p0, i64 4
  %v2 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_2, i1 %on, i16 0)
  %s2 = add i16 %v2, %s1
  %p0_3 = getelementptr i8, ptr addrspace(1) %p0, i64 6
  %v3 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_3, i1 %on, i16 0)
  %s3 = add i16 %v3, %s2
  %p0_4 = getelementptr i8, ptr addrspace(1) %p0, i64 8
  %v4 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_4, i1 %on, i16 0)
  %s4 = add i16 %v4, %s3
  %p0_5 = getelementptr i8, ptr addrspace(1) %p0, i64 10
  %v5 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_5, i1 %on, i16 0)
  %s5 = add i16 %v5, %s4
  %p0_6 = getelementptr i8, ptr addrspace(1) %p0, i64 12
  %v6 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_6, i1 %on, i16 0)
  %s6 = add i16 %v6, %s5
  %p0_7 = getelementptr i8, ptr addrspace(1) %p0, i64 14
  %v7 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_7, i1 %on, i16 0)
  %s7 = add i16 %v7, %s6
  %q0 = getelementptr i8, ptr addrspace(1) %q, i64 %at0
  %q0_0 = getelementptr i8, ptr addrspace(1) %q0, i64 0
  %v8 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_0, i1 %on, i16 0)
  %s8 = add i16 %v8, %s7
  %q0_1 = getelementptr i8, ptr addrspace(1) %q0, i64 2
  %v9 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_1, i1 %on, i16 0)
  %s9 = add i16 %v9, %s8
  %q0_2 = getelementptr i8, ptr addrspace(1) %q0, i64 4
  %v10 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_2, i1 %on, i16 0)
  %s10 = add i16 %v10, %s9
  %q0_3 = getelementptr i8, ptr addrspace(1) %q0, i64 6
  %v11 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_3, i1 %on, i16 0)
  %s11 = add i16 %v11, %s10
  %q0_4 = getelementptr i8, ptr addrspace(1) %q0, i64 8
  %v12 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_4, i1 %on, i16 0)
  %s12 = add i16 %v12, %s11
  %q0_5 = getelementptr i8, ptr addrspace(1) %q0, i64 10
  %v13 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_5, i1 %on, i16 0)
  %s13 = add i16 %v13, %s12
  %q0_6 = getelementptr i8, ptr addrspace(1) %q0, i64 12
  %v14 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_6, i1 %on, i16 0)
  %s14 = add i16 %v14, %s13
  %q0_7 = getelementptr i8, ptr addrspace(1) %q0, i64 14
  %v15 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_7, i1 %on, i16 0)
  %s15 = add i16 %v15, %s14
  %at1 = mul i64 %s, 3
  %p1 = getelementptr i8, ptr addrspace(1) %p, i64 %at1
  %p1_0 = getelementptr i8, ptr addrspace(1) %p1, i64 0
  %v16 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_0, i1 %on, i16 0)
  %s16 = add i16 %v16, %s15
  %p1_1 = getelementptr i8, ptr addrspace(1) %p1, i64 2
  %v17 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_1, i1 %on, i16 0)
  %s17 = add i16 %v17, %s16
  %p1_2 = getelementptr i8, ptr addrspace(1) %p1, i64 4
  %v18 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_2, i1 %on, i16 0)
  %s18 = add i16 %v18, %s17
  %p1_3 = getelementptr i8, ptr addrspace(1) %p1, i64 6
  %v19 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_3, i1 %on, i16 0)
  %s19 = add i16 %v19, %s18
  %p1_4 = getelementptr i8, ptr addrspace(1) %p1, i64 8
  %v20 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_4, i1 %on, i16 0)
  %s20 = add i16 %v20, %s19
  %p1_5 = getelementptr i8, ptr addrspace(1) %p1, i64 10
  %v21 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_5, i1 %on, i16 0)
  %s21 = add i16 %v21, %s20
  %p1_6 = getelementptr i8, ptr addrspace(1) %p1, i64 12
  %v22 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_6, i1 %on, i16 0)
  %s22 = add i16 %v22, %s21
  %p1_7 = getelementptr i8, ptr addrspace(1) %p1, i64 14
  %v23 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p1_7, i1 %on, i16 0)
  %s23 = add i16 %v23, %s22
  %q1 = getelementptr i8, ptr addrspace(1) %q, i64 %at1
  %q1_0 = getelementptr i8, ptr addrspace(1) %q1, i64 0
  %v24 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_0, i1 %on, i16 0)
  %s24 = add i16 %v24, %s23
  %q1_1 = getelementptr i8, ptr addrspace(1) %q1, i64 2
  %v25 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_1, i1 %on, i16 0)
  %s25 = add i16 %v25, %s24
  %q1_2 = getelementptr i8, ptr addrspace(1) %q1, i64 4
  %v26 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_2, i1 %on, i16 0)
  %s26 = add i16 %v26, %s25
  %q1_3 = getelementptr i8, ptr addrspace(1) %q1, i64 6
  %v27 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_3, i1 %on, i16 0)
  %s27 = add i16 %v27, %s26
  %q1_4 = getelementptr i8, ptr addrspace(1) %q1, i64 8
  %v28 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_4, i1 %on, i16 0)
  %s28 = add i16 %v28, %s27
  %q1_5 = getelementptr i8, ptr addrspace(1) %q1, i64 10
  %v29 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_5, i1 %on, i16 0)
  %s29 = add i16 %v29, %s28
  %q1_6 = getelementptr i8, ptr addrspace(1) %q1, i64 12
  %v30 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_6, i1 %on, i16 0)
  %s30 = add i16 %v30, %s29
  %q1_7 = getelementptr i8, ptr addrspace(1) %q1, i64 14
  %v31 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q1_7, i1 %on, i16 0)
  %s31 = add i16 %v31, %s30
  %at2 = mul i64 %s, 5
  %p2 = getelementptr i8, ptr addrspace(1) %p, i64 %at2
  %p2_0 = getelementptr i8, ptr addrspace(1) %p2, i64 0
  %v32 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_0, i1 %on, i16 0)
  %s32 = add i16 %v32, %s31
  %p2_1 = getelementptr i8, ptr addrspace(1) %p2, i64 2
  %v33 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_1, i1 %on, i16 0)
  %s33 = add i16 %v33, %s32
  %p2_2 = getelementptr i8, ptr addrspace(1) %p2, i64 4
  %v34 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_2, i1 %on, i16 0)
  %s34 = add i16 %v34, %s33
  %p2_3 = getelementptr i8, ptr addrspace(1) %p2, i64 6
  %v35 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_3, i1 %on, i16 0)
  %s35 = add i16 %v35, %s34
  %p2_4 = getelementptr i8, ptr addrspace(1) %p2, i64 8
  %v36 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_4, i1 %on, i16 0)
  %s36 = add i16 %v36, %s35
  %p2_5 = getelementptr i8, ptr addrspace(1) %p2, i64 10
  %v37 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_5, i1 %on, i16 0)
  %s37 = add i16 %v37, %s36
  %p2_6 = getelementptr i8, ptr addrspace(1) %p2, i64 12
  %v38 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_6, i1 %on, i16 0)
  %s38 = add i16 %v38, %s37
  %p2_7 = getelementptr i8, ptr addrspace(1) %p2, i64 14
  %v39 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p2_7, i1 %on, i16 0)
  %s39 = add i16 %v39, %s38
  %q2 = getelementptr i8, ptr addrspace(1) %q, i64 %at2
  %q2_0 = getelementptr i8, ptr addrspace(1) %q2, i64 0
  %v40 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_0, i1 %on, i16 0)
  %s40 = add i16 %v40, %s39
  %q2_1 = getelementptr i8, ptr addrspace(1) %q2, i64 2
  %v41 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_1, i1 %on, i16 0)
  %s41 = add i16 %v41, %s40
  %q2_2 = getelementptr i8, ptr addrspace(1) %q2, i64 4
  %v42 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_2, i1 %on, i16 0)
  %s42 = add i16 %v42, %s41
  %q2_3 = getelementptr i8, ptr addrspace(1) %q2, i64 6
  %v43 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_3, i1 %on, i16 0)
  %s43 = add i16 %v43, %s42
  %q2_4 = getelementptr i8, ptr addrspace(1) %q2, i64 8
  %v44 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_4, i1 %on, i16 0)
  %s44 = add i16 %v44, %s43
  %q2_5 = getelementptr i8, ptr addrspace(1) %q2, i64 10
  %v45 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_5, i1 %on, i16 0)
  %s45 = add i16 %v45, %s44
  %q2_6 = getelementptr i8, ptr addrspace(1) %q2, i64 12
  %v46 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_6, i1 %on, i16 0)
  %s46 = add i16 %v46, %s45
  %q2_7 = getelementptr i8, ptr addrspace(1) %q2, i64 14
  %v47 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q2_7, i1 %on, i16 0)
  %s47 = add i16 %v47, %s46
  %at3 = mul i64 %s, 7
  %p3 = getelementptr i8, ptr addrspace(1) %p, i64 %at3
  %p3_0 = getelementptr i8, ptr addrspace(1) %p3, i64 0
  %v48 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_0, i1 %on, i16 0)
  %s48 = add i16 %v48, %s47
  %p3_1 = getelementptr i8, ptr addrspace(1) %p3, i64 2
  %v49 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_1, i1 %on, i16 0)
  %s49 = add i16 %v49, %s48
  %p3_2 = getelementptr i8, ptr addrspace(1) %p3, i64 4
  %v50 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_2, i1 %on, i16 0)
  %s50 = add i16 %v50, %s49
  %p3_3 = getelementptr i8, ptr addrspace(1) %p3, i64 6
  %v51 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_3, i1 %on, i16 0)
  %s51 = add i16 %v51, %s50
  %p3_4 = getelementptr i8, ptr addrspace(1) %p3, i64 8
  %v52 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_4, i1 %on, i16 0)
  %s52 = add i16 %v52, %s51
  %p3_5 = getelementptr i8, ptr addrspace(1) %p3, i64 10
  %v53 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_5, i1 %on, i16 0)
  %s53 = add i16 %v53, %s52
  %p3_6 = getelementptr i8, ptr addrspace(1) %p3, i64 12
  %v54 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_6, i1 %on, i16 0)
  %s54 = add i16 %v54, %s53
  %p3_7 = getelementptr i8, ptr addrspace(1) %p3, i64 14
  %v55 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p3_7, i1 %on, i16 0)
  %s55 = add i16 %v55, %s54
  %q3 = getelementptr i8, ptr addrspace(1) %q, i64 %at3
  %q3_0 = getelementptr i8, ptr addrspace(1) %q3, i64 0
  %v56 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_0, i1 %on, i16 0)
  %s56 = add i16 %v56, %s55
  %q3_1 = getelementptr i8, ptr addrspace(1) %q3, i64 2
  %v57 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_1, i1 %on, i16 0)
  %s57 = add i16 %v57, %s56
  %q3_2 = getelementptr i8, ptr addrspace(1) %q3, i64 4
  %v58 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_2, i1 %on, i16 0)
  %s58 = add i16 %v58, %s57
  %q3_3 = getelementptr i8, ptr addrspace(1) %q3, i64 6
  %v59 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_3, i1 %on, i16 0)
  %s59 = add i16 %v59, %s58
  %q3_4 = getelementptr i8, ptr addrspace(1) %q3, i64 8
  %v60 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_4, i1 %on, i16 0)
  %s60 = add i16 %v60, %s59
  %q3_5 = getelementptr i8, ptr addrspace(1) %q3, i64 10
  %v61 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_5, i1 %on, i16 0)
  %s61 = add i16 %v61, %s60
  %q3_6 = getelementptr i8, ptr addrspace(1) %q3, i64 12
  %v62 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_6, i1 %on, i16 0)
  %s62 = add i16 %v62, %s61
  %q3_7 = getelementptr i8, ptr addrspace(1) %q3, i64 14
  %v63 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q3_7, i1 %on, i16 0)
  %s63 = add i16 %v63, %s62
  store i16 %s63, ptr addrspace(1) %o, align 2
  ret void
}

define void @row(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias readonly %q, ptr addrspace(1) noalias %o, i64 %s, i1 %on) #2 {
  %at0 = mul i64 %s, 1
  %p0 = getelementptr i8, ptr addrspace(1) %p, i64 %at0
  %p0_0 = getelementptr i8, ptr addrspace(1) %p0, i64 0
  %v0 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_0, i1 %on, i16 0)
  %s0 = add i16 %v0, 0
  %p0_1 = getelementptr i8, ptr addrspace(1) %p0, i64 2
  %v1 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_1, i1 %on, i16 0)
  %s1 = add i16 %v1, %s0
  %p0_2 = getelementptr i8, ptr addrspace(1) %p0, i64 4
  %v2 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_2, i1 %on, i16 0)
  %s2 = add i16 %v2, %s1
  %p0_3 = getelementptr i8, ptr addrspace(1) %p0, i64 6
  %v3 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_3, i1 %on, i16 0)
  %s3 = add i16 %v3, %s2
  %p0_4 = getelementptr i8, ptr addrspace(1) %p0, i64 8
  %v4 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_4, i1 %on, i16 0)
  %s4 = add i16 %v4, %s3
  %p0_5 = getelementptr i8, ptr addrspace(1) %p0, i64 10
  %v5 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_5, i1 %on, i16 0)
  %s5 = add i16 %v5, %s4
  %p0_6 = getelementptr i8, ptr addrspace(1) %p0, i64 12
  %v6 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_6, i1 %on, i16 0)
  %s6 = add i16 %v6, %s5
  %p0_7 = getelementptr i8, ptr addrspace(1) %p0, i64 14
  %v7 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_7, i1 %on, i16 0)
  %s7 = add i16 %v7, %s6
  %p0_8 = getelementptr i8, ptr addrspace(1) %p0, i64 16
  %v8 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_8, i1 %on, i16 0)
  %s8 = add i16 %v8, %s7
  %p0_9 = getelementptr i8, ptr addrspace(1) %p0, i64 18
  %v9 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_9, i1 %on, i16 0)
  %s9 = add i16 %v9, %s8
  %p0_10 = getelementptr i8, ptr addrspace(1) %p0, i64 20
  %v10 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_10, i1 %on, i16 0)
  %s10 = add i16 %v10, %s9
  %p0_11 = getelementptr i8, ptr addrspace(1) %p0, i64 22
  %v11 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_11, i1 %on, i16 0)
  %s11 = add i16 %v11, %s10
  %p0_12 = getelementptr i8, ptr addrspace(1) %p0, i64 24
  %v12 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_12, i1 %on, i16 0)
  %s12 = add i16 %v12, %s11
  %p0_13 = getelementptr i8, ptr addrspace(1) %p0, i64 26
  %v13 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_13, i1 %on, i16 0)
  %s13 = add i16 %v13, %s12
  %p0_14 = getelementptr i8, ptr addrspace(1) %p0, i64 28
  %v14 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_14, i1 %on, i16 0)
  %s14 = add i16 %v14, %s13
  %p0_15 = getelementptr i8, ptr addrspace(1) %p0, i64 30
  %v15 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_15, i1 %on, i16 0)
  %s15 = add i16 %v15, %s14
  %p0_16 = getelementptr i8, ptr addrspace(1) %p0, i64 32
  %v16 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_16, i1 %on, i16 0)
  %s16 = add i16 %v16, %s15
  %p0_17 = getelementptr i8, ptr addrspace(1) %p0, i64 34
  %v17 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_17, i1 %on, i16 0)
  %s17 = add i16 %v17, %s16
  %p0_18 = getelementptr i8, ptr addrspace(1) %p0, i64 36
  %v18 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_18, i1 %on, i16 0)
  %s18 = add i16 %v18, %s17
  %p0_19 = getelementptr i8, ptr addrspace(1) %p0, i64 38
  %v19 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_19, i1 %on, i16 0)
  %s19 = add i16 %v19, %s18
  %p0_20 = getelementptr i8, ptr addrspace(1) %p0, i64 40
  %v20 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_20, i1 %on, i16 0)
  %s20 = add i16 %v20, %s19
  %p0_21 = getelementptr i8, ptr addrspace(1) %p0, i64 42
  %v21 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_21, i1 %on, i16 0)
  %s21 = add i16 %v21, %s20
  %p0_22 = getelementptr i8, ptr addrspace(1) %p0, i64 44
  %v22 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_22, i1 %on, i16 0)
  %s22 = add i16 %v22, %s21
  %p0_23 = getelementptr i8, ptr addrspace(1) %p0, i64 46
  %v23 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_23, i1 %on, i16 0)
  %s23 = add i16 %v23, %s22
  %p0_24 = getelementptr i8, ptr addrspace(1) %p0, i64 48
  %v24 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_24, i1 %on, i16 0)
  %s24 = add i16 %v24, %s23
  %p0_25 = getelementptr i8, ptr addrspace(1) %p0, i64 50
  %v25 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_25, i1 %on, i16 0)
  %s25 = add i16 %v25, %s24
  %p0_26 = getelementptr i8, ptr addrspace(1) %p0, i64 52
  %v26 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_26, i1 %on, i16 0)
  %s26 = add i16 %v26, %s25
  %p0_27 = getelementptr i8, ptr addrspace(1) %p0, i64 54
  %v27 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_27, i1 %on, i16 0)
  %s27 = add i16 %v27, %s26
  %p0_28 = getelementptr i8, ptr addrspace(1) %p0, i64 56
  %v28 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_28, i1 %on, i16 0)
  %s28 = add i16 %v28, %s27
  %p0_29 = getelementptr i8, ptr addrspace(1) %p0, i64 58
  %v29 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_29, i1 %on, i16 0)
  %s29 = add i16 %v29, %s28
  %p0_30 = getelementptr i8, ptr addrspace(1) %p0, i64 60
  %v30 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_30, i1 %on, i16 0)
  %s30 = add i16 %v30, %s29
  %p0_31 = getelementptr i8, ptr addrspace(1) %p0, i64 62
  %v31 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %p0_31, i1 %on, i16 0)
  %s31 = add i16 %v31, %s30
  %q0 = getelementptr i8, ptr addrspace(1) %q, i64 %at0
  %q0_0 = getelementptr i8, ptr addrspace(1) %q0, i64 0
  %v32 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_0, i1 %on, i16 0)
  %s32 = add i16 %v32, %s31
  %q0_1 = getelementptr i8, ptr addrspace(1) %q0, i64 2
  %v33 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_1, i1 %on, i16 0)
  %s33 = add i16 %v33, %s32
  %q0_2 = getelementptr i8, ptr addrspace(1) %q0, i64 4
  %v34 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_2, i1 %on, i16 0)
  %s34 = add i16 %v34, %s33
  %q0_3 = getelementptr i8, ptr addrspace(1) %q0, i64 6
  %v35 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_3, i1 %on, i16 0)
  %s35 = add i16 %v35, %s34
  %q0_4 = getelementptr i8, ptr addrspace(1) %q0, i64 8
  %v36 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_4, i1 %on, i16 0)
  %s36 = add i16 %v36, %s35
  %q0_5 = getelementptr i8, ptr addrspace(1) %q0, i64 10
  %v37 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_5, i1 %on, i16 0)
  %s37 = add i16 %v37, %s36
  %q0_6 = getelementptr i8, ptr addrspace(1) %q0, i64 12
  %v38 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_6, i1 %on, i16 0)
  %s38 = add i16 %v38, %s37
  %q0_7 = getelementptr i8, ptr addrspace(1) %q0, i64 14
  %v39 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_7, i1 %on, i16 0)
  %s39 = add i16 %v39, %s38
  %q0_8 = getelementptr i8, ptr addrspace(1) %q0, i64 16
  %v40 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_8, i1 %on, i16 0)
  %s40 = add i16 %v40, %s39
  %q0_9 = getelementptr i8, ptr addrspace(1) %q0, i64 18
  %v41 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_9, i1 %on, i16 0)
  %s41 = add i16 %v41, %s40
  %q0_10 = getelementptr i8, ptr addrspace(1) %q0, i64 20
  %v42 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_10, i1 %on, i16 0)
  %s42 = add i16 %v42, %s41
  %q0_11 = getelementptr i8, ptr addrspace(1) %q0, i64 22
  %v43 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_11, i1 %on, i16 0)
  %s43 = add i16 %v43, %s42
  %q0_12 = getelementptr i8, ptr addrspace(1) %q0, i64 24
  %v44 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_12, i1 %on, i16 0)
  %s44 = add i16 %v44, %s43
  %q0_13 = getelementptr i8, ptr addrspace(1) %q0, i64 26
  %v45 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_13, i1 %on, i16 0)
  %s45 = add i16 %v45, %s44
  %q0_14 = getelementptr i8, ptr addrspace(1) %q0, i64 28
  %v46 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_14, i1 %on, i16 0)
  %s46 = add i16 %v46, %s45
  %q0_15 = getelementptr i8, ptr addrspace(1) %q0, i64 30
  %v47 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_15, i1 %on, i16 0)
  %s47 = add i16 %v47, %s46
  %q0_16 = getelementptr i8, ptr addrspace(1) %q0, i64 32
  %v48 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_16, i1 %on, i16 0)
  %s48 = add i16 %v48, %s47
  %q0_17 = getelementptr i8, ptr addrspace(1) %q0, i64 34
  %v49 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_17, i1 %on, i16 0)
  %s49 = add i16 %v49, %s48
  %q0_18 = getelementptr i8, ptr addrspace(1) %q0, i64 36
  %v50 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_18, i1 %on, i16 0)
  %s50 = add i16 %v50, %s49
  %q0_19 = getelementptr i8, ptr addrspace(1) %q0, i64 38
  %v51 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_19, i1 %on, i16 0)
  %s51 = add i16 %v51, %s50
  %q0_20 = getelementptr i8, ptr addrspace(1) %q0, i64 40
  %v52 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_20, i1 %on, i16 0)
  %s52 = add i16 %v52, %s51
  %q0_21 = getelementptr i8, ptr addrspace(1) %q0, i64 42
  %v53 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_21, i1 %on, i16 0)
  %s53 = add i16 %v53, %s52
  %q0_22 = getelementptr i8, ptr addrspace(1) %q0, i64 44
  %v54 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_22, i1 %on, i16 0)
  %s54 = add i16 %v54, %s53
  %q0_23 = getelementptr i8, ptr addrspace(1) %q0, i64 46
  %v55 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_23, i1 %on, i16 0)
  %s55 = add i16 %v55, %s54
  %q0_24 = getelementptr i8, ptr addrspace(1) %q0, i64 48
  %v56 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_24, i1 %on, i16 0)
  %s56 = add i16 %v56, %s55
  %q0_25 = getelementptr i8, ptr addrspace(1) %q0, i64 50
  %v57 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_25, i1 %on, i16 0)
  %s57 = add i16 %v57, %s56
  %q0_26 = getelementptr i8, ptr addrspace(1) %q0, i64 52
  %v58 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_26, i1 %on, i16 0)
  %s58 = add i16 %v58, %s57
  %q0_27 = getelementptr i8, ptr addrspace(1) %q0, i64 54
  %v59 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_27, i1 %on, i16 0)
  %s59 = add i16 %v59, %s58
  %q0_28 = getelementptr i8, ptr addrspace(1) %q0, i64 56
  %v60 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_28, i1 %on, i16 0)
  %s60 = add i16 %v60, %s59
  %q0_29 = getelementptr i8, ptr addrspace(1) %q0, i64 58
  %v61 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_29, i1 %on, i16 0)
  %s61 = add i16 %v61, %s60
  %q0_30 = getelementptr i8, ptr addrspace(1) %q0, i64 60
  %v62 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_30, i1 %on, i16 0)
  %s62 = add i16 %v62, %s61
  %q0_31 = getelementptr i8, ptr addrspace(1) %q0, i64 62
  %v63 = call i16 @tg.load.global.nc.b16(ptr addrspace(1) %q0_31, i1 %on, i16 0)
  %s63 = add i16 %v63, %s62
  store i16 %s63, ptr addrspace(1) %o, align 2
  ret void
}

declare i16 @tg.load.global.nc.b16(ptr addrspace(1), i1, i16) #3

attributes #0 = { nounwind "tg.maxntid"="128,1,1" "tg.minctasm"="16" }
attributes #1 = { nounwind "tg.maxntid"="32,1,1" "tg.minctasm"="25" }
attributes #2 = { nounwind "tg.maxntid"="32,1,1" "tg.minctasm"="20" }
attributes #3 = { nounwind }
attributes #4 = { nounwind "tg.maxntid"="128,1,1" "tg.minctasm"="16" "tg.softf8"="1" }
