; Pairs of f16 are converted from f8 long before their use: a third more registers.
; RUN: %nv nvptx sm_90a %s | FileCheck %s

; CHECK-LABEL: entry pairs(
; CHECK: minnctapersm 9
; CHECK-LABEL: entry words(
; CHECK: minnctapersm 12

define void @pairs(ptr addrspace(1) %p) #0 {
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = load i32, ptr addrspace(1) %q0, align 4
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 4
  %v1 = load i32, ptr addrspace(1) %q1, align 4
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 8
  %v2 = load i32, ptr addrspace(1) %q2, align 4
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 12
  %v3 = load i32, ptr addrspace(1) %q3, align 4
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 16
  %v4 = load i32, ptr addrspace(1) %q4, align 4
  %q5 = getelementptr i8, ptr addrspace(1) %p, i64 20
  %v5 = load i32, ptr addrspace(1) %q5, align 4
  %q6 = getelementptr i8, ptr addrspace(1) %p, i64 24
  %v6 = load i32, ptr addrspace(1) %q6, align 4
  %q7 = getelementptr i8, ptr addrspace(1) %p, i64 28
  %v7 = load i32, ptr addrspace(1) %q7, align 4
  %q8 = getelementptr i8, ptr addrspace(1) %p, i64 32
  %v8 = load i32, ptr addrspace(1) %q8, align 4
  %q9 = getelementptr i8, ptr addrspace(1) %p, i64 36
  %v9 = load i32, ptr addrspace(1) %q9, align 4
  %q10 = getelementptr i8, ptr addrspace(1) %p, i64 40
  %v10 = load i32, ptr addrspace(1) %q10, align 4
  %q11 = getelementptr i8, ptr addrspace(1) %p, i64 44
  %v11 = load i32, ptr addrspace(1) %q11, align 4
  %q12 = getelementptr i8, ptr addrspace(1) %p, i64 48
  %v12 = load i32, ptr addrspace(1) %q12, align 4
  %q13 = getelementptr i8, ptr addrspace(1) %p, i64 52
  %v13 = load i32, ptr addrspace(1) %q13, align 4
  %q14 = getelementptr i8, ptr addrspace(1) %p, i64 56
  %v14 = load i32, ptr addrspace(1) %q14, align 4
  %q15 = getelementptr i8, ptr addrspace(1) %p, i64 60
  %v15 = load i32, ptr addrspace(1) %q15, align 4
  %q16 = getelementptr i8, ptr addrspace(1) %p, i64 64
  %v16 = load i32, ptr addrspace(1) %q16, align 4
  %q17 = getelementptr i8, ptr addrspace(1) %p, i64 68
  %v17 = load i32, ptr addrspace(1) %q17, align 4
  %q18 = getelementptr i8, ptr addrspace(1) %p, i64 72
  %v18 = load i32, ptr addrspace(1) %q18, align 4
  %q19 = getelementptr i8, ptr addrspace(1) %p, i64 76
  %v19 = load i32, ptr addrspace(1) %q19, align 4
  %q20 = getelementptr i8, ptr addrspace(1) %p, i64 80
  %v20 = load i32, ptr addrspace(1) %q20, align 4
  %q21 = getelementptr i8, ptr addrspace(1) %p, i64 84
  %v21 = load i32, ptr addrspace(1) %q21, align 4
  %q22 = getelementptr i8, ptr addrspace(1) %p, i64 88
  %v22 = load i32, ptr addrspace(1) %q22, align 4
  %q23 = getelementptr i8, ptr addrspace(1) %p, i64 92
  %v23 = load i32, ptr addrspace(1) %q23, align 4
  %q24 = getelementptr i8, ptr addrspace(1) %p, i64 96
  %v24 = load i32, ptr addrspace(1) %q24, align 4
  %q25 = getelementptr i8, ptr addrspace(1) %p, i64 100
  %v25 = load i32, ptr addrspace(1) %q25, align 4
  %q26 = getelementptr i8, ptr addrspace(1) %p, i64 104
  %v26 = load i32, ptr addrspace(1) %q26, align 4
  %q27 = getelementptr i8, ptr addrspace(1) %p, i64 108
  %v27 = load i32, ptr addrspace(1) %q27, align 4
  %q28 = getelementptr i8, ptr addrspace(1) %p, i64 112
  %v28 = load i32, ptr addrspace(1) %q28, align 4
  %q29 = getelementptr i8, ptr addrspace(1) %p, i64 116
  %v29 = load i32, ptr addrspace(1) %q29, align 4
  %q30 = getelementptr i8, ptr addrspace(1) %p, i64 120
  %v30 = load i32, ptr addrspace(1) %q30, align 4
  %q31 = getelementptr i8, ptr addrspace(1) %p, i64 124
  %v31 = load i32, ptr addrspace(1) %q31, align 4
  %q32 = getelementptr i8, ptr addrspace(1) %p, i64 128
  %v32 = load i32, ptr addrspace(1) %q32, align 4
  %q33 = getelementptr i8, ptr addrspace(1) %p, i64 132
  %v33 = load i32, ptr addrspace(1) %q33, align 4
  %q34 = getelementptr i8, ptr addrspace(1) %p, i64 136
  %v34 = load i32, ptr addrspace(1) %q34, align 4
  %q35 = getelementptr i8, ptr addrspace(1) %p, i64 140
  %v35 = load i32, ptr addrspace(1) %q35, align 4
  %w0 = add i32 %v0, %v35
  %h = trunc i32 %w0 to i16
  %c = call i32 @tg.cvt.f16x2.f8e4m3x2(i16 %h)
  store i32 %c, ptr addrspace(1) %q0, align 4
  %w1 = add i32 %v1, %v34
  store i32 %w1, ptr addrspace(1) %q1, align 4
  %w2 = add i32 %v2, %v33
  store i32 %w2, ptr addrspace(1) %q2, align 4
  %w3 = add i32 %v3, %v32
  store i32 %w3, ptr addrspace(1) %q3, align 4
  %w4 = add i32 %v4, %v31
  store i32 %w4, ptr addrspace(1) %q4, align 4
  %w5 = add i32 %v5, %v30
  store i32 %w5, ptr addrspace(1) %q5, align 4
  %w6 = add i32 %v6, %v29
  store i32 %w6, ptr addrspace(1) %q6, align 4
  %w7 = add i32 %v7, %v28
  store i32 %w7, ptr addrspace(1) %q7, align 4
  %w8 = add i32 %v8, %v27
  store i32 %w8, ptr addrspace(1) %q8, align 4
  %w9 = add i32 %v9, %v26
  store i32 %w9, ptr addrspace(1) %q9, align 4
  %w10 = add i32 %v10, %v25
  store i32 %w10, ptr addrspace(1) %q10, align 4
  %w11 = add i32 %v11, %v24
  store i32 %w11, ptr addrspace(1) %q11, align 4
  %w12 = add i32 %v12, %v23
  store i32 %w12, ptr addrspace(1) %q12, align 4
  %w13 = add i32 %v13, %v22
  store i32 %w13, ptr addrspace(1) %q13, align 4
  %w14 = add i32 %v14, %v21
  store i32 %w14, ptr addrspace(1) %q14, align 4
  %w15 = add i32 %v15, %v20
  store i32 %w15, ptr addrspace(1) %q15, align 4
  %w16 = add i32 %v16, %v19
  store i32 %w16, ptr addrspace(1) %q16, align 4
  %w17 = add i32 %v17, %v18
  store i32 %w17, ptr addrspace(1) %q17, align 4
  %w18 = add i32 %v18, %v17
  store i32 %w18, ptr addrspace(1) %q18, align 4
  %w19 = add i32 %v19, %v16
  store i32 %w19, ptr addrspace(1) %q19, align 4
  %w20 = add i32 %v20, %v15
  store i32 %w20, ptr addrspace(1) %q20, align 4
  %w21 = add i32 %v21, %v14
  store i32 %w21, ptr addrspace(1) %q21, align 4
  %w22 = add i32 %v22, %v13
  store i32 %w22, ptr addrspace(1) %q22, align 4
  %w23 = add i32 %v23, %v12
  store i32 %w23, ptr addrspace(1) %q23, align 4
  %w24 = add i32 %v24, %v11
  store i32 %w24, ptr addrspace(1) %q24, align 4
  %w25 = add i32 %v25, %v10
  store i32 %w25, ptr addrspace(1) %q25, align 4
  %w26 = add i32 %v26, %v9
  store i32 %w26, ptr addrspace(1) %q26, align 4
  %w27 = add i32 %v27, %v8
  store i32 %w27, ptr addrspace(1) %q27, align 4
  %w28 = add i32 %v28, %v7
  store i32 %w28, ptr addrspace(1) %q28, align 4
  %w29 = add i32 %v29, %v6
  store i32 %w29, ptr addrspace(1) %q29, align 4
  %w30 = add i32 %v30, %v5
  store i32 %w30, ptr addrspace(1) %q30, align 4
  %w31 = add i32 %v31, %v4
  store i32 %w31, ptr addrspace(1) %q31, align 4
  %w32 = add i32 %v32, %v3
  store i32 %w32, ptr addrspace(1) %q32, align 4
  %w33 = add i32 %v33, %v2
  store i32 %w33, ptr addrspace(1) %q33, align 4
  %w34 = add i32 %v34, %v1
  store i32 %w34, ptr addrspace(1) %q34, align 4
  %w35 = add i32 %v35, %v0
  store i32 %w35, ptr addrspace(1) %q35, align 4
  ret void
}

define void @words(ptr addrspace(1) %p) #0 {
  %q0 = getelementptr i8, ptr addrspace(1) %p, i64 0
  %v0 = load i32, ptr addrspace(1) %q0, align 4
  %q1 = getelementptr i8, ptr addrspace(1) %p, i64 4
  %v1 = load i32, ptr addrspace(1) %q1, align 4
  %q2 = getelementptr i8, ptr addrspace(1) %p, i64 8
  %v2 = load i32, ptr addrspace(1) %q2, align 4
  %q3 = getelementptr i8, ptr addrspace(1) %p, i64 12
  %v3 = load i32, ptr addrspace(1) %q3, align 4
  %q4 = getelementptr i8, ptr addrspace(1) %p, i64 16
  %v4 = load i32, ptr addrspace(1) %q4, align 4
  %q5 = getelementptr i8, ptr addrspace(1) %p, i64 20
  %v5 = load i32, ptr addrspace(1) %q5, align 4
  %q6 = getelementptr i8, ptr addrspace(1) %p, i64 24
  %v6 = load i32, ptr addrspace(1) %q6, align 4
  %q7 = getelementptr i8, ptr addrspace(1) %p, i64 28
  %v7 = load i32, ptr addrspace(1) %q7, align 4
  %q8 = getelementptr i8, ptr addrspace(1) %p, i64 32
  %v8 = load i32, ptr addrspace(1) %q8, align 4
  %q9 = getelementptr i8, ptr addrspace(1) %p, i64 36
  %v9 = load i32, ptr addrspace(1) %q9, align 4
  %q10 = getelementptr i8, ptr addrspace(1) %p, i64 40
  %v10 = load i32, ptr addrspace(1) %q10, align 4
  %q11 = getelementptr i8, ptr addrspace(1) %p, i64 44
  %v11 = load i32, ptr addrspace(1) %q11, align 4
  %q12 = getelementptr i8, ptr addrspace(1) %p, i64 48
  %v12 = load i32, ptr addrspace(1) %q12, align 4
  %q13 = getelementptr i8, ptr addrspace(1) %p, i64 52
  %v13 = load i32, ptr addrspace(1) %q13, align 4
  %q14 = getelementptr i8, ptr addrspace(1) %p, i64 56
  %v14 = load i32, ptr addrspace(1) %q14, align 4
  %q15 = getelementptr i8, ptr addrspace(1) %p, i64 60
  %v15 = load i32, ptr addrspace(1) %q15, align 4
  %q16 = getelementptr i8, ptr addrspace(1) %p, i64 64
  %v16 = load i32, ptr addrspace(1) %q16, align 4
  %q17 = getelementptr i8, ptr addrspace(1) %p, i64 68
  %v17 = load i32, ptr addrspace(1) %q17, align 4
  %q18 = getelementptr i8, ptr addrspace(1) %p, i64 72
  %v18 = load i32, ptr addrspace(1) %q18, align 4
  %q19 = getelementptr i8, ptr addrspace(1) %p, i64 76
  %v19 = load i32, ptr addrspace(1) %q19, align 4
  %q20 = getelementptr i8, ptr addrspace(1) %p, i64 80
  %v20 = load i32, ptr addrspace(1) %q20, align 4
  %q21 = getelementptr i8, ptr addrspace(1) %p, i64 84
  %v21 = load i32, ptr addrspace(1) %q21, align 4
  %q22 = getelementptr i8, ptr addrspace(1) %p, i64 88
  %v22 = load i32, ptr addrspace(1) %q22, align 4
  %q23 = getelementptr i8, ptr addrspace(1) %p, i64 92
  %v23 = load i32, ptr addrspace(1) %q23, align 4
  %q24 = getelementptr i8, ptr addrspace(1) %p, i64 96
  %v24 = load i32, ptr addrspace(1) %q24, align 4
  %q25 = getelementptr i8, ptr addrspace(1) %p, i64 100
  %v25 = load i32, ptr addrspace(1) %q25, align 4
  %q26 = getelementptr i8, ptr addrspace(1) %p, i64 104
  %v26 = load i32, ptr addrspace(1) %q26, align 4
  %q27 = getelementptr i8, ptr addrspace(1) %p, i64 108
  %v27 = load i32, ptr addrspace(1) %q27, align 4
  %q28 = getelementptr i8, ptr addrspace(1) %p, i64 112
  %v28 = load i32, ptr addrspace(1) %q28, align 4
  %q29 = getelementptr i8, ptr addrspace(1) %p, i64 116
  %v29 = load i32, ptr addrspace(1) %q29, align 4
  %q30 = getelementptr i8, ptr addrspace(1) %p, i64 120
  %v30 = load i32, ptr addrspace(1) %q30, align 4
  %q31 = getelementptr i8, ptr addrspace(1) %p, i64 124
  %v31 = load i32, ptr addrspace(1) %q31, align 4
  %q32 = getelementptr i8, ptr addrspace(1) %p, i64 128
  %v32 = load i32, ptr addrspace(1) %q32, align 4
  %q33 = getelementptr i8, ptr addrspace(1) %p, i64 132
  %v33 = load i32, ptr addrspace(1) %q33, align 4
  %q34 = getelementptr i8, ptr addrspace(1) %p, i64 136
  %v34 = load i32, ptr addrspace(1) %q34, align 4
  %q35 = getelementptr i8, ptr addrspace(1) %p, i64 140
  %v35 = load i32, ptr addrspace(1) %q35, align 4
  %w0 = add i32 %v0, %v35
  store i32 %w0, ptr addrspace(1) %q0, align 4
  %w1 = add i32 %v1, %v34
  store i32 %w1, ptr addrspace(1) %q1, align 4
  %w2 = add i32 %v2, %v33
  store i32 %w2, ptr addrspace(1) %q2, align 4
  %w3 = add i32 %v3, %v32
  store i32 %w3, ptr addrspace(1) %q3, align 4
  %w4 = add i32 %v4, %v31
  store i32 %w4, ptr addrspace(1) %q4, align 4
  %w5 = add i32 %v5, %v30
  store i32 %w5, ptr addrspace(1) %q5, align 4
  %w6 = add i32 %v6, %v29
  store i32 %w6, ptr addrspace(1) %q6, align 4
  %w7 = add i32 %v7, %v28
  store i32 %w7, ptr addrspace(1) %q7, align 4
  %w8 = add i32 %v8, %v27
  store i32 %w8, ptr addrspace(1) %q8, align 4
  %w9 = add i32 %v9, %v26
  store i32 %w9, ptr addrspace(1) %q9, align 4
  %w10 = add i32 %v10, %v25
  store i32 %w10, ptr addrspace(1) %q10, align 4
  %w11 = add i32 %v11, %v24
  store i32 %w11, ptr addrspace(1) %q11, align 4
  %w12 = add i32 %v12, %v23
  store i32 %w12, ptr addrspace(1) %q12, align 4
  %w13 = add i32 %v13, %v22
  store i32 %w13, ptr addrspace(1) %q13, align 4
  %w14 = add i32 %v14, %v21
  store i32 %w14, ptr addrspace(1) %q14, align 4
  %w15 = add i32 %v15, %v20
  store i32 %w15, ptr addrspace(1) %q15, align 4
  %w16 = add i32 %v16, %v19
  store i32 %w16, ptr addrspace(1) %q16, align 4
  %w17 = add i32 %v17, %v18
  store i32 %w17, ptr addrspace(1) %q17, align 4
  %w18 = add i32 %v18, %v17
  store i32 %w18, ptr addrspace(1) %q18, align 4
  %w19 = add i32 %v19, %v16
  store i32 %w19, ptr addrspace(1) %q19, align 4
  %w20 = add i32 %v20, %v15
  store i32 %w20, ptr addrspace(1) %q20, align 4
  %w21 = add i32 %v21, %v14
  store i32 %w21, ptr addrspace(1) %q21, align 4
  %w22 = add i32 %v22, %v13
  store i32 %w22, ptr addrspace(1) %q22, align 4
  %w23 = add i32 %v23, %v12
  store i32 %w23, ptr addrspace(1) %q23, align 4
  %w24 = add i32 %v24, %v11
  store i32 %w24, ptr addrspace(1) %q24, align 4
  %w25 = add i32 %v25, %v10
  store i32 %w25, ptr addrspace(1) %q25, align 4
  %w26 = add i32 %v26, %v9
  store i32 %w26, ptr addrspace(1) %q26, align 4
  %w27 = add i32 %v27, %v8
  store i32 %w27, ptr addrspace(1) %q27, align 4
  %w28 = add i32 %v28, %v7
  store i32 %w28, ptr addrspace(1) %q28, align 4
  %w29 = add i32 %v29, %v6
  store i32 %w29, ptr addrspace(1) %q29, align 4
  %w30 = add i32 %v30, %v5
  store i32 %w30, ptr addrspace(1) %q30, align 4
  %w31 = add i32 %v31, %v4
  store i32 %w31, ptr addrspace(1) %q31, align 4
  %w32 = add i32 %v32, %v3
  store i32 %w32, ptr addrspace(1) %q32, align 4
  %w33 = add i32 %v33, %v2
  store i32 %w33, ptr addrspace(1) %q33, align 4
  %w34 = add i32 %v34, %v1
  store i32 %w34, ptr addrspace(1) %q34, align 4
  %w35 = add i32 %v35, %v0
  store i32 %w35, ptr addrspace(1) %q35, align 4
  ret void
}

declare i32 @tg.cvt.f16x2.f8e4m3x2(i16) #1

attributes #0 = { nounwind "tg.maxntid"="128,1,1" "tg.minctasm"="12" }
attributes #1 = { nounwind memory(none) }
