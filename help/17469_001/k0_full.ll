; ModuleID = 'vesta_445bc3e1dbb13dad3021a16e5d7db0af'
source_filename = "vesta_445bc3e1dbb13dad3021a16e5d7db0af"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nounwind
define void @vesta_445bc3e1dbb13dad3021a16e5d7db0af(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4) #0 {
entry:
  %b0 = load ptr, ptr %0, align 8
  %5 = icmp slt i64 %3, %4
  br i1 %5, label %before, label %17

before:                                           ; preds = %entry
  br label %body

body:                                             ; preds = %latch, %before
  %6 = phi i64 [ %3, %before ], [ %15, %latch ]
  br label %before1

before1:                                          ; preds = %body
  %7 = mul i64 %6, 2048
  %8 = getelementptr float, ptr %b0, i64 %7
  br label %body2

body2:                                            ; preds = %latch3, %before1
  %9 = phi i64 [ 0, %before1 ], [ %12, %latch3 ]
  %10 = getelementptr float, ptr %8, i64 %9
  store <16 x float> zeroinitializer, ptr %10, align 4
  %11 = getelementptr float, ptr %10, i64 16
  store <16 x float> zeroinitializer, ptr %11, align 4
  br label %latch3

latch3:                                           ; preds = %body2
  %12 = add nuw nsw i64 %9, 32
  %13 = icmp slt i64 %12, 2048
  br i1 %13, label %body2, label %14

14:                                               ; preds = %latch3
  br label %latch

latch:                                            ; preds = %14
  %15 = add nuw nsw i64 %6, 1
  %16 = icmp slt i64 %15, %4
  br i1 %16, label %body, label %17

17:                                               ; preds = %latch, %entry
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="512" "target-cpu"="znver4" "target-features"="+adx,+aes,+avx,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,+avx512vpopcntdq,+bmi,+bmi2,+cx16,+f16c,+fma,+gfni,+lzcnt,+movbe,+pclmul,+popcnt,+prfchw,+sahf,+sha,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,-amx-bf16,-amx-fp16,-amx-int8,-amx-tile,-avx512fp16,-avx512vp2intersect,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-fma4,-sha512,-tbm,-xop" }
