; ModuleID = 'vesta_74d52774f91e30b52c0935686443a1cb'
source_filename = "vesta_74d52774f91e30b52c0935686443a1cb"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nounwind
define void @vesta_74d52774f91e30b52c0935686443a1cb(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4) #0 {
entry:
  %b0 = load ptr, ptr %0, align 8
  %5 = getelementptr inbounds ptr, ptr %0, i64 1
  %b1 = load ptr, ptr %5, align 8
  %s0 = load i64, ptr %1, align 8
  %6 = icmp slt i64 %3, %4
  br i1 %6, label %before, label %48

before:                                           ; preds = %entry
  %7 = mul i64 %s0, %s0
  br label %body

body:                                             ; preds = %latch, %before
  %8 = phi i64 [ %3, %before ], [ %46, %latch ]
  %9 = mul i64 %8, -32
  %10 = add i64 %7, %9
  %11 = icmp slt i64 %10, 32
  %12 = select i1 %11, i64 %10, i64 32
  %13 = and i64 %12, -16
  %14 = icmp slt i64 0, %13
  br i1 %14, label %before1, label %29

before1:                                          ; preds = %body
  %15 = mul i64 %8, 32
  %16 = getelementptr float, ptr %b0, i64 %15
  %17 = getelementptr float, ptr %b1, i64 %15
  br label %body2

body2:                                            ; preds = %latch3, %before1
  %18 = phi i64 [ 0, %before1 ], [ %27, %latch3 ]
  %19 = getelementptr float, ptr %16, i64 %18
  %20 = load <8 x float>, ptr %19, align 4
  %21 = fmul <8 x float> %20, <float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00>
  %22 = getelementptr float, ptr %17, i64 %18
  store <8 x float> %21, ptr %22, align 4
  %23 = getelementptr float, ptr %19, i64 8
  %24 = load <8 x float>, ptr %23, align 4
  %25 = fmul <8 x float> %24, <float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00>
  %26 = getelementptr float, ptr %22, i64 8
  store <8 x float> %25, ptr %26, align 4
  br label %latch3

latch3:                                           ; preds = %body2
  %27 = add nuw nsw i64 %18, 16
  %28 = icmp slt i64 %27, %13
  br i1 %28, label %body2, label %29

29:                                               ; preds = %latch3, %body
  %30 = icmp slt i64 %13, %12
  br i1 %30, label %before4, label %45

before4:                                          ; preds = %29
  %31 = mul i64 %8, 32
  %32 = getelementptr float, ptr %b0, i64 %31
  %33 = getelementptr float, ptr %b1, i64 %31
  br label %body5

body5:                                            ; preds = %latch6, %before4
  %34 = phi i64 [ %13, %before4 ], [ %43, %latch6 ]
  %35 = sub i64 %12, %34
  %36 = icmp slt i64 %35, 8
  %37 = select i1 %36, i64 %35, i64 8
  %38 = trunc i64 %37 to i32
  %.splatinsert = insertelement <8 x i32> poison, i32 %38, i64 0
  %.splat = shufflevector <8 x i32> %.splatinsert, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %.splat
  %39 = getelementptr float, ptr %32, i64 %34
  %40 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %39, i32 4, <8 x i1> %mask, <8 x float> zeroinitializer)
  %41 = fmul <8 x float> %40, <float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00>
  %42 = getelementptr float, ptr %33, i64 %34
  call void @llvm.masked.store.v8f32.p0(<8 x float> %41, ptr %42, i32 4, <8 x i1> %mask)
  br label %latch6

latch6:                                           ; preds = %body5
  %43 = add nuw nsw i64 %34, 8
  %44 = icmp slt i64 %43, %12
  br i1 %44, label %body5, label %45

45:                                               ; preds = %latch6, %29
  br label %latch

latch:                                            ; preds = %45
  %46 = add nuw nsw i64 %8, 1
  %47 = icmp slt i64 %46, %4
  br i1 %47, label %body, label %48

48:                                               ; preds = %latch, %entry
  ret void
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: read)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr nocapture, i32 immarg, <8 x i1>, <8 x float>) #1

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: write)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr nocapture, i32 immarg, <8 x i1>) #2

attributes #0 = { nounwind "prefer-vector-width"="256" "target-cpu"="znver3" "target-features"="+adx,+aes,+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+pclmul,+popcnt,+prfchw,+sahf,+sha,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,-amx-bf16,-amx-fp16,-amx-int8,-amx-tile,-avx512bf16,-avx512bitalg,-avx512bw,-avx512cd,-avx512dq,-avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,-avx512vl,-avx512vnni,-avx512vp2intersect,-avx512vpopcntdq,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-fma4,-gfni,-sha512,-tbm,-xop" }
attributes #1 = { nocallback nofree nosync nounwind willreturn memory(argmem: read) }
attributes #2 = { nocallback nofree nosync nounwind willreturn memory(argmem: write) }
