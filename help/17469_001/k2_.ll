; ModuleID = 'vesta_f77824e3d87d292f6b981a36f74545d0'
source_filename = "vesta_f77824e3d87d292f6b981a36f74545d0"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nounwind
define void @vesta_f77824e3d87d292f6b981a36f74545d0(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4) #0 {
entry:
  %b0 = load ptr, ptr %0, align 8
  %5 = getelementptr inbounds ptr, ptr %0, i64 1
  %b1 = load ptr, ptr %5, align 8
  %6 = icmp slt i64 %3, %4
  br i1 %6, label %before, label %23

before:                                           ; preds = %entry
  br label %body

body:                                             ; preds = %latch, %before
  %7 = phi i64 [ %3, %before ], [ %21, %latch ]
  br label %before1

before1:                                          ; preds = %body
  %8 = mul i64 %7, 2048
  %9 = getelementptr float, ptr %b0, i64 %8
  %10 = getelementptr float, ptr %b1, i64 %8
  br label %body2

body2:                                            ; preds = %latch3, %before1
  %11 = phi i64 [ 0, %before1 ], [ %18, %latch3 ]
  %12 = getelementptr float, ptr %9, i64 %11
  %13 = load <16 x float>, ptr %12, align 4
  %14 = getelementptr float, ptr %10, i64 %11
  store <16 x float> %13, ptr %14, align 4
  %15 = getelementptr float, ptr %12, i64 16
  %16 = load <16 x float>, ptr %15, align 4
  %17 = getelementptr float, ptr %14, i64 16
  store <16 x float> %16, ptr %17, align 4
  br label %latch3

latch3:                                           ; preds = %body2
  %18 = add nuw nsw i64 %11, 32
  %19 = icmp slt i64 %18, 2048
  br i1 %19, label %body2, label %20

20:                                               ; preds = %latch3
  br label %latch

latch:                                            ; preds = %20
  %21 = add nuw nsw i64 %7, 1
  %22 = icmp slt i64 %21, %4
  br i1 %22, label %body, label %23

23:                                               ; preds = %latch, %entry
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="512" "target-cpu"="znver4" "target-features"="+adx,+aes,+avx,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,+avx512vpopcntdq,+bmi,+bmi2,+cx16,+f16c,+fma,+gfni,+lzcnt,+movbe,+pclmul,+popcnt,+prfchw,+sahf,+sha,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,-amx-bf16,-amx-fp16,-amx-int8,-amx-tile,-avx512fp16,-avx512vp2intersect,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-fma4,-sha512,-tbm,-xop" }
