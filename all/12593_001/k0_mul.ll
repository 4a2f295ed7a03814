; ModuleID = 'vesta_1b3b3fdcec286c5e6d91c571b623ff17'
source_filename = "vesta_1b3b3fdcec286c5e6d91c571b623ff17"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nounwind
define void @vesta_1b3b3fdcec286c5e6d91c571b623ff17(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4) #0 {
entry:
  %b0 = load ptr, ptr %0, align 8
  %5 = getelementptr inbounds ptr, ptr %0, i64 1
  %b1 = load ptr, ptr %5, align 8
  %s0 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i64, ptr %1, i64 1
  %s1 = load i64, ptr %6, align 8
  %7 = icmp slt i64 %3, %4
  br i1 %7, label %before, label %50

before:                                           ; preds = %entry
  %8 = mul i64 %s0, %s0
  %9 = sitofp i64 %s1 to float
  %.splatinsert = insertelement <8 x float> poison, float %9, i64 0
  %.splat = shufflevector <8 x float> %.splatinsert, <8 x float> poison, <8 x i32> zeroinitializer
  br label %body

body:                                             ; preds = %latch, %before
  %10 = phi i64 [ %3, %before ], [ %48, %latch ]
  %11 = mul i64 %10, -32
  %12 = add i64 %8, %11
  %13 = icmp slt i64 %12, 32
  %14 = select i1 %13, i64 %12, i64 32
  %15 = and i64 %14, -16
  %16 = icmp slt i64 0, %15
  br i1 %16, label %before1, label %31

before1:                                          ; preds = %body
  %17 = mul i64 %10, 32
  %18 = getelementptr float, ptr %b0, i64 %17
  %19 = getelementptr float, ptr %b1, i64 %17
  br label %body2

body2:                                            ; preds = %latch3, %before1
  %20 = phi i64 [ 0, %before1 ], [ %29, %latch3 ]
  %21 = getelementptr float, ptr %18, i64 %20
  %22 = load <8 x float>, ptr %21, align 4
  %23 = fmul <8 x float> %22, %.splat
  %24 = getelementptr float, ptr %19, i64 %20
  store <8 x float> %23, ptr %24, align 4
  %25 = getelementptr float, ptr %21, i64 8
  %26 = load <8 x float>, ptr %25, align 4
  %27 = fmul <8 x float> %26, %.splat
  %28 = getelementptr float, ptr %24, i64 8
  store <8 x float> %27, ptr %28, align 4
  br label %latch3

latch3:                                           ; preds = %body2
  %29 = add nuw nsw i64 %20, 16
  %30 = icmp slt i64 %29, %15
  br i1 %30, label %body2, label %31

31:                                               ; preds = %latch3, %body
  %32 = icmp slt i64 %15, %14
  br i1 %32, label %before4, label %47

before4:                                          ; preds = %31
  %33 = mul i64 %10, 32
  %34 = getelementptr float, ptr %b0, i64 %33
  %35 = getelementptr float, ptr %b1, i64 %33
  br label %body5

body5:                                            ; preds = %latch6, %before4
  %36 = phi i64 [ %15, %before4 ], [ %45, %latch6 ]
  %37 = sub i64 %14, %36
  %38 = icmp slt i64 %37, 8
  %39 = select i1 %38, i64 %37, i64 8
  %40 = trunc i64 %39 to i32
  %.splatinsert7 = insertelement <8 x i32> poison, i32 %40, i64 0
  %.splat8 = shufflevector <8 x i32> %.splatinsert7, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %.splat8
  %41 = getelementptr float, ptr %34, i64 %36
  %42 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %41, i32 4, <8 x i1> %mask, <8 x float> zeroinitializer)
  %43 = fmul <8 x float> %42, %.splat
  %44 = getelementptr float, ptr %35, i64 %36
  call void @llvm.masked.store.v8f32.p0(<8 x float> %43, ptr %44, i32 4, <8 x i1> %mask)
  br label %latch6

latch6:                                           ; preds = %body5
  %45 = add nuw nsw i64 %36, 8
  %46 = icmp slt i64 %45, %14
  br i1 %46, label %body5, label %47

47:                                               ; preds = %latch6, %31
  br label %latch

latch:                                            ; preds = %47
  %48 = add nuw nsw i64 %10, 1
  %49 = icmp slt i64 %48, %4
  br i1 %49, label %body, label %50

50:                                               ; preds = %latch, %entry
  ret void
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: read)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr nocapture, i32 immarg, <8 x i1>, <8 x float>) #1

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: write)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr nocapture, i32 immarg, <8 x i1>) #2

attributes #0 = { nounwind "prefer-vector-width"="256" "target-cpu"="znver3" "target-features"="+adx,+aes,+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+pclmul,+popcnt,+prfchw,+sahf,+sha,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,-amx-bf16,-amx-fp16,-amx-int8,-amx-tile,-avx512bf16,-avx512bitalg,-avx512bw,-avx512cd,-avx512dq,-avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,-avx512vl,-avx512vnni,-avx512vp2intersect,-avx512vpopcntdq,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-fma4,-gfni,-sha512,-tbm,-xop" }
attributes #1 = { nocallback nofree nosync nounwind willreturn memory(argmem: read) }
attributes #2 = { nocallback nofree nosync nounwind willreturn memory(argmem: write) }
