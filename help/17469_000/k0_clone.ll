; ModuleID = 'vesta_5a0c9bdf0e5412e019e026c607f1abc7'
source_filename = "vesta_5a0c9bdf0e5412e019e026c607f1abc7"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nounwind
define void @vesta_5a0c9bdf0e5412e019e026c607f1abc7(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4) #0 {
entry:
  %tile25 = alloca [4352 x float], align 64
  %tile = alloca [34816 x float], align 64
  %b0 = load ptr, ptr %0, align 8
  %5 = getelementptr inbounds ptr, ptr %0, i64 1
  %b1 = load ptr, ptr %5, align 8
  %6 = add i64 %3, 127
  %7 = and i64 %6, -128
  %8 = icmp slt i64 %7, %4
  %9 = select i1 %8, i64 %7, i64 %4
  %10 = and i64 %4, -128
  %11 = icmp sgt i64 %10, %9
  %12 = select i1 %11, i64 %10, i64 %9
  br i1 %11, label %before, label %293

before:                                           ; preds = %entry
  br label %body

body:                                             ; preds = %latch, %before
  %13 = phi i64 [ %9, %before ], [ %14, %latch ]
  %14 = add i64 %13, 128
  br label %before1

before1:                                          ; preds = %body
  br label %body2

body2:                                            ; preds = %latch3, %before1
  %15 = phi i64 [ 0, %before1 ], [ %16, %latch3 ]
  %16 = add i64 %15, 256
  br label %before4

before4:                                          ; preds = %body2
  br label %body5

body5:                                            ; preds = %latch6, %before4
  %17 = phi i64 [ %15, %before4 ], [ %270, %latch6 ]
  %18 = mul i64 %17, 512
  %19 = add i64 %18, 8192
  %20 = add i64 %19, %13
  %21 = getelementptr float, ptr %b0, i64 %20
  call void @llvm.prefetch.p0(ptr %21, i32 0, i32 3, i32 1)
  %22 = getelementptr i8, ptr %21, i64 64
  call void @llvm.prefetch.p0(ptr %22, i32 0, i32 3, i32 1)
  %23 = getelementptr i8, ptr %21, i64 128
  call void @llvm.prefetch.p0(ptr %23, i32 0, i32 3, i32 1)
  %24 = getelementptr i8, ptr %21, i64 192
  call void @llvm.prefetch.p0(ptr %24, i32 0, i32 3, i32 1)
  %25 = getelementptr i8, ptr %21, i64 256
  call void @llvm.prefetch.p0(ptr %25, i32 0, i32 3, i32 1)
  %26 = getelementptr i8, ptr %21, i64 320
  call void @llvm.prefetch.p0(ptr %26, i32 0, i32 3, i32 1)
  %27 = getelementptr i8, ptr %21, i64 384
  call void @llvm.prefetch.p0(ptr %27, i32 0, i32 3, i32 1)
  %28 = getelementptr i8, ptr %21, i64 448
  call void @llvm.prefetch.p0(ptr %28, i32 0, i32 3, i32 1)
  %29 = getelementptr float, ptr %21, i64 512
  call void @llvm.prefetch.p0(ptr %29, i32 0, i32 3, i32 1)
  %30 = getelementptr i8, ptr %29, i64 64
  call void @llvm.prefetch.p0(ptr %30, i32 0, i32 3, i32 1)
  %31 = getelementptr i8, ptr %29, i64 128
  call void @llvm.prefetch.p0(ptr %31, i32 0, i32 3, i32 1)
  %32 = getelementptr i8, ptr %29, i64 192
  call void @llvm.prefetch.p0(ptr %32, i32 0, i32 3, i32 1)
  %33 = getelementptr i8, ptr %29, i64 256
  call void @llvm.prefetch.p0(ptr %33, i32 0, i32 3, i32 1)
  %34 = getelementptr i8, ptr %29, i64 320
  call void @llvm.prefetch.p0(ptr %34, i32 0, i32 3, i32 1)
  %35 = getelementptr i8, ptr %29, i64 384
  call void @llvm.prefetch.p0(ptr %35, i32 0, i32 3, i32 1)
  %36 = getelementptr i8, ptr %29, i64 448
  call void @llvm.prefetch.p0(ptr %36, i32 0, i32 3, i32 1)
  %37 = getelementptr float, ptr %29, i64 512
  call void @llvm.prefetch.p0(ptr %37, i32 0, i32 3, i32 1)
  %38 = getelementptr i8, ptr %37, i64 64
  call void @llvm.prefetch.p0(ptr %38, i32 0, i32 3, i32 1)
  %39 = getelementptr i8, ptr %37, i64 128
  call void @llvm.prefetch.p0(ptr %39, i32 0, i32 3, i32 1)
  %40 = getelementptr i8, ptr %37, i64 192
  call void @llvm.prefetch.p0(ptr %40, i32 0, i32 3, i32 1)
  %41 = getelementptr i8, ptr %37, i64 256
  call void @llvm.prefetch.p0(ptr %41, i32 0, i32 3, i32 1)
  %42 = getelementptr i8, ptr %37, i64 320
  call void @llvm.prefetch.p0(ptr %42, i32 0, i32 3, i32 1)
  %43 = getelementptr i8, ptr %37, i64 384
  call void @llvm.prefetch.p0(ptr %43, i32 0, i32 3, i32 1)
  %44 = getelementptr i8, ptr %37, i64 448
  call void @llvm.prefetch.p0(ptr %44, i32 0, i32 3, i32 1)
  %45 = getelementptr float, ptr %37, i64 512
  call void @llvm.prefetch.p0(ptr %45, i32 0, i32 3, i32 1)
  %46 = getelementptr i8, ptr %45, i64 64
  call void @llvm.prefetch.p0(ptr %46, i32 0, i32 3, i32 1)
  %47 = getelementptr i8, ptr %45, i64 128
  call void @llvm.prefetch.p0(ptr %47, i32 0, i32 3, i32 1)
  %48 = getelementptr i8, ptr %45, i64 192
  call void @llvm.prefetch.p0(ptr %48, i32 0, i32 3, i32 1)
  %49 = getelementptr i8, ptr %45, i64 256
  call void @llvm.prefetch.p0(ptr %49, i32 0, i32 3, i32 1)
  %50 = getelementptr i8, ptr %45, i64 320
  call void @llvm.prefetch.p0(ptr %50, i32 0, i32 3, i32 1)
  %51 = getelementptr i8, ptr %45, i64 384
  call void @llvm.prefetch.p0(ptr %51, i32 0, i32 3, i32 1)
  %52 = getelementptr i8, ptr %45, i64 448
  call void @llvm.prefetch.p0(ptr %52, i32 0, i32 3, i32 1)
  %53 = getelementptr float, ptr %45, i64 512
  call void @llvm.prefetch.p0(ptr %53, i32 0, i32 3, i32 1)
  %54 = getelementptr i8, ptr %53, i64 64
  call void @llvm.prefetch.p0(ptr %54, i32 0, i32 3, i32 1)
  %55 = getelementptr i8, ptr %53, i64 128
  call void @llvm.prefetch.p0(ptr %55, i32 0, i32 3, i32 1)
  %56 = getelementptr i8, ptr %53, i64 192
  call void @llvm.prefetch.p0(ptr %56, i32 0, i32 3, i32 1)
  %57 = getelementptr i8, ptr %53, i64 256
  call void @llvm.prefetch.p0(ptr %57, i32 0, i32 3, i32 1)
  %58 = getelementptr i8, ptr %53, i64 320
  call void @llvm.prefetch.p0(ptr %58, i32 0, i32 3, i32 1)
  %59 = getelementptr i8, ptr %53, i64 384
  call void @llvm.prefetch.p0(ptr %59, i32 0, i32 3, i32 1)
  %60 = getelementptr i8, ptr %53, i64 448
  call void @llvm.prefetch.p0(ptr %60, i32 0, i32 3, i32 1)
  %61 = getelementptr float, ptr %53, i64 512
  call void @llvm.prefetch.p0(ptr %61, i32 0, i32 3, i32 1)
  %62 = getelementptr i8, ptr %61, i64 64
  call void @llvm.prefetch.p0(ptr %62, i32 0, i32 3, i32 1)
  %63 = getelementptr i8, ptr %61, i64 128
  call void @llvm.prefetch.p0(ptr %63, i32 0, i32 3, i32 1)
  %64 = getelementptr i8, ptr %61, i64 192
  call void @llvm.prefetch.p0(ptr %64, i32 0, i32 3, i32 1)
  %65 = getelementptr i8, ptr %61, i64 256
  call void @llvm.prefetch.p0(ptr %65, i32 0, i32 3, i32 1)
  %66 = getelementptr i8, ptr %61, i64 320
  call void @llvm.prefetch.p0(ptr %66, i32 0, i32 3, i32 1)
  %67 = getelementptr i8, ptr %61, i64 384
  call void @llvm.prefetch.p0(ptr %67, i32 0, i32 3, i32 1)
  %68 = getelementptr i8, ptr %61, i64 448
  call void @llvm.prefetch.p0(ptr %68, i32 0, i32 3, i32 1)
  %69 = getelementptr float, ptr %61, i64 512
  call void @llvm.prefetch.p0(ptr %69, i32 0, i32 3, i32 1)
  %70 = getelementptr i8, ptr %69, i64 64
  call void @llvm.prefetch.p0(ptr %70, i32 0, i32 3, i32 1)
  %71 = getelementptr i8, ptr %69, i64 128
  call void @llvm.prefetch.p0(ptr %71, i32 0, i32 3, i32 1)
  %72 = getelementptr i8, ptr %69, i64 192
  call void @llvm.prefetch.p0(ptr %72, i32 0, i32 3, i32 1)
  %73 = getelementptr i8, ptr %69, i64 256
  call void @llvm.prefetch.p0(ptr %73, i32 0, i32 3, i32 1)
  %74 = getelementptr i8, ptr %69, i64 320
  call void @llvm.prefetch.p0(ptr %74, i32 0, i32 3, i32 1)
  %75 = getelementptr i8, ptr %69, i64 384
  call void @llvm.prefetch.p0(ptr %75, i32 0, i32 3, i32 1)
  %76 = getelementptr i8, ptr %69, i64 448
  call void @llvm.prefetch.p0(ptr %76, i32 0, i32 3, i32 1)
  %77 = getelementptr float, ptr %69, i64 512
  call void @llvm.prefetch.p0(ptr %77, i32 0, i32 3, i32 1)
  %78 = getelementptr i8, ptr %77, i64 64
  call void @llvm.prefetch.p0(ptr %78, i32 0, i32 3, i32 1)
  %79 = getelementptr i8, ptr %77, i64 128
  call void @llvm.prefetch.p0(ptr %79, i32 0, i32 3, i32 1)
  %80 = getelementptr i8, ptr %77, i64 192
  call void @llvm.prefetch.p0(ptr %80, i32 0, i32 3, i32 1)
  %81 = getelementptr i8, ptr %77, i64 256
  call void @llvm.prefetch.p0(ptr %81, i32 0, i32 3, i32 1)
  %82 = getelementptr i8, ptr %77, i64 320
  call void @llvm.prefetch.p0(ptr %82, i32 0, i32 3, i32 1)
  %83 = getelementptr i8, ptr %77, i64 384
  call void @llvm.prefetch.p0(ptr %83, i32 0, i32 3, i32 1)
  %84 = getelementptr i8, ptr %77, i64 448
  call void @llvm.prefetch.p0(ptr %84, i32 0, i32 3, i32 1)
  %85 = getelementptr float, ptr %77, i64 512
  call void @llvm.prefetch.p0(ptr %85, i32 0, i32 3, i32 1)
  %86 = getelementptr i8, ptr %85, i64 64
  call void @llvm.prefetch.p0(ptr %86, i32 0, i32 3, i32 1)
  %87 = getelementptr i8, ptr %85, i64 128
  call void @llvm.prefetch.p0(ptr %87, i32 0, i32 3, i32 1)
  %88 = getelementptr i8, ptr %85, i64 192
  call void @llvm.prefetch.p0(ptr %88, i32 0, i32 3, i32 1)
  %89 = getelementptr i8, ptr %85, i64 256
  call void @llvm.prefetch.p0(ptr %89, i32 0, i32 3, i32 1)
  %90 = getelementptr i8, ptr %85, i64 320
  call void @llvm.prefetch.p0(ptr %90, i32 0, i32 3, i32 1)
  %91 = getelementptr i8, ptr %85, i64 384
  call void @llvm.prefetch.p0(ptr %91, i32 0, i32 3, i32 1)
  %92 = getelementptr i8, ptr %85, i64 448
  call void @llvm.prefetch.p0(ptr %92, i32 0, i32 3, i32 1)
  %93 = getelementptr float, ptr %85, i64 512
  call void @llvm.prefetch.p0(ptr %93, i32 0, i32 3, i32 1)
  %94 = getelementptr i8, ptr %93, i64 64
  call void @llvm.prefetch.p0(ptr %94, i32 0, i32 3, i32 1)
  %95 = getelementptr i8, ptr %93, i64 128
  call void @llvm.prefetch.p0(ptr %95, i32 0, i32 3, i32 1)
  %96 = getelementptr i8, ptr %93, i64 192
  call void @llvm.prefetch.p0(ptr %96, i32 0, i32 3, i32 1)
  %97 = getelementptr i8, ptr %93, i64 256
  call void @llvm.prefetch.p0(ptr %97, i32 0, i32 3, i32 1)
  %98 = getelementptr i8, ptr %93, i64 320
  call void @llvm.prefetch.p0(ptr %98, i32 0, i32 3, i32 1)
  %99 = getelementptr i8, ptr %93, i64 384
  call void @llvm.prefetch.p0(ptr %99, i32 0, i32 3, i32 1)
  %100 = getelementptr i8, ptr %93, i64 448
  call void @llvm.prefetch.p0(ptr %100, i32 0, i32 3, i32 1)
  %101 = getelementptr float, ptr %93, i64 512
  call void @llvm.prefetch.p0(ptr %101, i32 0, i32 3, i32 1)
  %102 = getelementptr i8, ptr %101, i64 64
  call void @llvm.prefetch.p0(ptr %102, i32 0, i32 3, i32 1)
  %103 = getelementptr i8, ptr %101, i64 128
  call void @llvm.prefetch.p0(ptr %103, i32 0, i32 3, i32 1)
  %104 = getelementptr i8, ptr %101, i64 192
  call void @llvm.prefetch.p0(ptr %104, i32 0, i32 3, i32 1)
  %105 = getelementptr i8, ptr %101, i64 256
  call void @llvm.prefetch.p0(ptr %105, i32 0, i32 3, i32 1)
  %106 = getelementptr i8, ptr %101, i64 320
  call void @llvm.prefetch.p0(ptr %106, i32 0, i32 3, i32 1)
  %107 = getelementptr i8, ptr %101, i64 384
  call void @llvm.prefetch.p0(ptr %107, i32 0, i32 3, i32 1)
  %108 = getelementptr i8, ptr %101, i64 448
  call void @llvm.prefetch.p0(ptr %108, i32 0, i32 3, i32 1)
  %109 = getelementptr float, ptr %101, i64 512
  call void @llvm.prefetch.p0(ptr %109, i32 0, i32 3, i32 1)
  %110 = getelementptr i8, ptr %109, i64 64
  call void @llvm.prefetch.p0(ptr %110, i32 0, i32 3, i32 1)
  %111 = getelementptr i8, ptr %109, i64 128
  call void @llvm.prefetch.p0(ptr %111, i32 0, i32 3, i32 1)
  %112 = getelementptr i8, ptr %109, i64 192
  call void @llvm.prefetch.p0(ptr %112, i32 0, i32 3, i32 1)
  %113 = getelementptr i8, ptr %109, i64 256
  call void @llvm.prefetch.p0(ptr %113, i32 0, i32 3, i32 1)
  %114 = getelementptr i8, ptr %109, i64 320
  call void @llvm.prefetch.p0(ptr %114, i32 0, i32 3, i32 1)
  %115 = getelementptr i8, ptr %109, i64 384
  call void @llvm.prefetch.p0(ptr %115, i32 0, i32 3, i32 1)
  %116 = getelementptr i8, ptr %109, i64 448
  call void @llvm.prefetch.p0(ptr %116, i32 0, i32 3, i32 1)
  %117 = getelementptr float, ptr %109, i64 512
  call void @llvm.prefetch.p0(ptr %117, i32 0, i32 3, i32 1)
  %118 = getelementptr i8, ptr %117, i64 64
  call void @llvm.prefetch.p0(ptr %118, i32 0, i32 3, i32 1)
  %119 = getelementptr i8, ptr %117, i64 128
  call void @llvm.prefetch.p0(ptr %119, i32 0, i32 3, i32 1)
  %120 = getelementptr i8, ptr %117, i64 192
  call void @llvm.prefetch.p0(ptr %120, i32 0, i32 3, i32 1)
  %121 = getelementptr i8, ptr %117, i64 256
  call void @llvm.prefetch.p0(ptr %121, i32 0, i32 3, i32 1)
  %122 = getelementptr i8, ptr %117, i64 320
  call void @llvm.prefetch.p0(ptr %122, i32 0, i32 3, i32 1)
  %123 = getelementptr i8, ptr %117, i64 384
  call void @llvm.prefetch.p0(ptr %123, i32 0, i32 3, i32 1)
  %124 = getelementptr i8, ptr %117, i64 448
  call void @llvm.prefetch.p0(ptr %124, i32 0, i32 3, i32 1)
  %125 = getelementptr float, ptr %117, i64 512
  call void @llvm.prefetch.p0(ptr %125, i32 0, i32 3, i32 1)
  %126 = getelementptr i8, ptr %125, i64 64
  call void @llvm.prefetch.p0(ptr %126, i32 0, i32 3, i32 1)
  %127 = getelementptr i8, ptr %125, i64 128
  call void @llvm.prefetch.p0(ptr %127, i32 0, i32 3, i32 1)
  %128 = getelementptr i8, ptr %125, i64 192
  call void @llvm.prefetch.p0(ptr %128, i32 0, i32 3, i32 1)
  %129 = getelementptr i8, ptr %125, i64 256
  call void @llvm.prefetch.p0(ptr %129, i32 0, i32 3, i32 1)
  %130 = getelementptr i8, ptr %125, i64 320
  call void @llvm.prefetch.p0(ptr %130, i32 0, i32 3, i32 1)
  %131 = getelementptr i8, ptr %125, i64 384
  call void @llvm.prefetch.p0(ptr %131, i32 0, i32 3, i32 1)
  %132 = getelementptr i8, ptr %125, i64 448
  call void @llvm.prefetch.p0(ptr %132, i32 0, i32 3, i32 1)
  %133 = getelementptr float, ptr %125, i64 512
  call void @llvm.prefetch.p0(ptr %133, i32 0, i32 3, i32 1)
  %134 = getelementptr i8, ptr %133, i64 64
  call void @llvm.prefetch.p0(ptr %134, i32 0, i32 3, i32 1)
  %135 = getelementptr i8, ptr %133, i64 128
  call void @llvm.prefetch.p0(ptr %135, i32 0, i32 3, i32 1)
  %136 = getelementptr i8, ptr %133, i64 192
  call void @llvm.prefetch.p0(ptr %136, i32 0, i32 3, i32 1)
  %137 = getelementptr i8, ptr %133, i64 256
  call void @llvm.prefetch.p0(ptr %137, i32 0, i32 3, i32 1)
  %138 = getelementptr i8, ptr %133, i64 320
  call void @llvm.prefetch.p0(ptr %138, i32 0, i32 3, i32 1)
  %139 = getelementptr i8, ptr %133, i64 384
  call void @llvm.prefetch.p0(ptr %139, i32 0, i32 3, i32 1)
  %140 = getelementptr i8, ptr %133, i64 448
  call void @llvm.prefetch.p0(ptr %140, i32 0, i32 3, i32 1)
  %141 = getelementptr float, ptr %133, i64 512
  call void @llvm.prefetch.p0(ptr %141, i32 0, i32 3, i32 1)
  %142 = getelementptr i8, ptr %141, i64 64
  call void @llvm.prefetch.p0(ptr %142, i32 0, i32 3, i32 1)
  %143 = getelementptr i8, ptr %141, i64 128
  call void @llvm.prefetch.p0(ptr %143, i32 0, i32 3, i32 1)
  %144 = getelementptr i8, ptr %141, i64 192
  call void @llvm.prefetch.p0(ptr %144, i32 0, i32 3, i32 1)
  %145 = getelementptr i8, ptr %141, i64 256
  call void @llvm.prefetch.p0(ptr %145, i32 0, i32 3, i32 1)
  %146 = getelementptr i8, ptr %141, i64 320
  call void @llvm.prefetch.p0(ptr %146, i32 0, i32 3, i32 1)
  %147 = getelementptr i8, ptr %141, i64 384
  call void @llvm.prefetch.p0(ptr %147, i32 0, i32 3, i32 1)
  %148 = getelementptr i8, ptr %141, i64 448
  call void @llvm.prefetch.p0(ptr %148, i32 0, i32 3, i32 1)
  br label %before7

before7:                                          ; preds = %body5
  br label %body8

body8:                                            ; preds = %latch9, %before7
  %149 = phi i64 [ %13, %before7 ], [ %267, %latch9 ]
  %150 = add i64 %149, %18
  %151 = getelementptr float, ptr %b0, i64 %150
  %152 = load <16 x float>, ptr %151, align 4
  %153 = getelementptr float, ptr %151, i64 512
  %154 = load <16 x float>, ptr %153, align 4
  %155 = getelementptr float, ptr %153, i64 512
  %156 = load <16 x float>, ptr %155, align 4
  %157 = getelementptr float, ptr %155, i64 512
  %158 = load <16 x float>, ptr %157, align 4
  %159 = getelementptr float, ptr %157, i64 512
  %160 = load <16 x float>, ptr %159, align 4
  %161 = getelementptr float, ptr %159, i64 512
  %162 = load <16 x float>, ptr %161, align 4
  %163 = getelementptr float, ptr %161, i64 512
  %164 = load <16 x float>, ptr %163, align 4
  %165 = getelementptr float, ptr %163, i64 512
  %166 = load <16 x float>, ptr %165, align 4
  %167 = getelementptr float, ptr %165, i64 512
  %168 = load <16 x float>, ptr %167, align 4
  %169 = getelementptr float, ptr %167, i64 512
  %170 = load <16 x float>, ptr %169, align 4
  %171 = getelementptr float, ptr %169, i64 512
  %172 = load <16 x float>, ptr %171, align 4
  %173 = getelementptr float, ptr %171, i64 512
  %174 = load <16 x float>, ptr %173, align 4
  %175 = getelementptr float, ptr %173, i64 512
  %176 = load <16 x float>, ptr %175, align 4
  %177 = getelementptr float, ptr %175, i64 512
  %178 = load <16 x float>, ptr %177, align 4
  %179 = getelementptr float, ptr %177, i64 512
  %180 = load <16 x float>, ptr %179, align 4
  %181 = getelementptr float, ptr %179, i64 512
  %182 = load <16 x float>, ptr %181, align 4
  %183 = shufflevector <16 x float> %152, <16 x float> %168, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %184 = shufflevector <16 x float> %152, <16 x float> %168, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %185 = shufflevector <16 x float> %154, <16 x float> %170, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %186 = shufflevector <16 x float> %154, <16 x float> %170, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %187 = shufflevector <16 x float> %156, <16 x float> %172, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %188 = shufflevector <16 x float> %156, <16 x float> %172, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %189 = shufflevector <16 x float> %158, <16 x float> %174, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %190 = shufflevector <16 x float> %158, <16 x float> %174, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %191 = shufflevector <16 x float> %160, <16 x float> %176, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %192 = shufflevector <16 x float> %160, <16 x float> %176, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %193 = shufflevector <16 x float> %162, <16 x float> %178, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %194 = shufflevector <16 x float> %162, <16 x float> %178, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %195 = shufflevector <16 x float> %164, <16 x float> %180, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %196 = shufflevector <16 x float> %164, <16 x float> %180, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %197 = shufflevector <16 x float> %166, <16 x float> %182, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %198 = shufflevector <16 x float> %166, <16 x float> %182, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %199 = shufflevector <16 x float> %183, <16 x float> %191, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %200 = shufflevector <16 x float> %183, <16 x float> %191, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %201 = shufflevector <16 x float> %185, <16 x float> %193, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %202 = shufflevector <16 x float> %185, <16 x float> %193, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %203 = shufflevector <16 x float> %187, <16 x float> %195, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %204 = shufflevector <16 x float> %187, <16 x float> %195, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %205 = shufflevector <16 x float> %189, <16 x float> %197, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %206 = shufflevector <16 x float> %189, <16 x float> %197, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %207 = shufflevector <16 x float> %184, <16 x float> %192, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %208 = shufflevector <16 x float> %184, <16 x float> %192, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %209 = shufflevector <16 x float> %186, <16 x float> %194, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %210 = shufflevector <16 x float> %186, <16 x float> %194, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %211 = shufflevector <16 x float> %188, <16 x float> %196, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %212 = shufflevector <16 x float> %188, <16 x float> %196, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %213 = shufflevector <16 x float> %190, <16 x float> %198, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %214 = shufflevector <16 x float> %190, <16 x float> %198, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %215 = shufflevector <16 x float> %199, <16 x float> %203, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %216 = shufflevector <16 x float> %199, <16 x float> %203, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %217 = shufflevector <16 x float> %201, <16 x float> %205, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %218 = shufflevector <16 x float> %201, <16 x float> %205, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %219 = shufflevector <16 x float> %200, <16 x float> %204, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %220 = shufflevector <16 x float> %200, <16 x float> %204, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %221 = shufflevector <16 x float> %202, <16 x float> %206, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %222 = shufflevector <16 x float> %202, <16 x float> %206, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %223 = shufflevector <16 x float> %207, <16 x float> %211, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %224 = shufflevector <16 x float> %207, <16 x float> %211, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %225 = shufflevector <16 x float> %209, <16 x float> %213, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %226 = shufflevector <16 x float> %209, <16 x float> %213, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %227 = shufflevector <16 x float> %208, <16 x float> %212, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %228 = shufflevector <16 x float> %208, <16 x float> %212, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %229 = shufflevector <16 x float> %210, <16 x float> %214, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %230 = shufflevector <16 x float> %210, <16 x float> %214, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %231 = shufflevector <16 x float> %215, <16 x float> %217, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %232 = shufflevector <16 x float> %215, <16 x float> %217, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %233 = shufflevector <16 x float> %216, <16 x float> %218, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %234 = shufflevector <16 x float> %216, <16 x float> %218, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %235 = shufflevector <16 x float> %219, <16 x float> %221, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %236 = shufflevector <16 x float> %219, <16 x float> %221, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %237 = shufflevector <16 x float> %220, <16 x float> %222, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %238 = shufflevector <16 x float> %220, <16 x float> %222, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %239 = shufflevector <16 x float> %223, <16 x float> %225, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %240 = shufflevector <16 x float> %223, <16 x float> %225, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %241 = shufflevector <16 x float> %224, <16 x float> %226, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %242 = shufflevector <16 x float> %224, <16 x float> %226, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %243 = shufflevector <16 x float> %227, <16 x float> %229, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %244 = shufflevector <16 x float> %227, <16 x float> %229, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %245 = shufflevector <16 x float> %228, <16 x float> %230, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %246 = shufflevector <16 x float> %228, <16 x float> %230, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %247 = sub i64 %149, %13
  %248 = mul i64 %247, 272
  %249 = sub i64 %17, %15
  %250 = add i64 %248, %249
  %251 = getelementptr float, ptr %tile, i64 %250
  store <16 x float> %231, ptr %251, align 4
  %252 = getelementptr float, ptr %251, i64 272
  store <16 x float> %232, ptr %252, align 4
  %253 = getelementptr float, ptr %252, i64 272
  store <16 x float> %233, ptr %253, align 4
  %254 = getelementptr float, ptr %253, i64 272
  store <16 x float> %234, ptr %254, align 4
  %255 = getelementptr float, ptr %254, i64 272
  store <16 x float> %235, ptr %255, align 4
  %256 = getelementptr float, ptr %255, i64 272
  store <16 x float> %236, ptr %256, align 4
  %257 = getelementptr float, ptr %256, i64 272
  store <16 x float> %237, ptr %257, align 4
  %258 = getelementptr float, ptr %257, i64 272
  store <16 x float> %238, ptr %258, align 4
  %259 = getelementptr float, ptr %258, i64 272
  store <16 x float> %239, ptr %259, align 4
  %260 = getelementptr float, ptr %259, i64 272
  store <16 x float> %240, ptr %260, align 4
  %261 = getelementptr float, ptr %260, i64 272
  store <16 x float> %241, ptr %261, align 4
  %262 = getelementptr float, ptr %261, i64 272
  store <16 x float> %242, ptr %262, align 4
  %263 = getelementptr float, ptr %262, i64 272
  store <16 x float> %243, ptr %263, align 4
  %264 = getelementptr float, ptr %263, i64 272
  store <16 x float> %244, ptr %264, align 4
  %265 = getelementptr float, ptr %264, i64 272
  store <16 x float> %245, ptr %265, align 4
  %266 = getelementptr float, ptr %265, i64 272
  store <16 x float> %246, ptr %266, align 4
  br label %latch9

latch9:                                           ; preds = %body8
  %267 = add nuw nsw i64 %149, 16
  %268 = icmp slt i64 %267, %14
  br i1 %268, label %body8, label %269

269:                                              ; preds = %latch9
  br label %latch6

latch6:                                           ; preds = %269
  %270 = add nuw nsw i64 %17, 16
  %271 = icmp slt i64 %270, %16
  br i1 %271, label %body5, label %272

272:                                              ; preds = %latch6
  br label %before10

before10:                                         ; preds = %272
  br label %body11

body11:                                           ; preds = %latch12, %before10
  %273 = phi i64 [ %13, %before10 ], [ %287, %latch12 ]
  br label %before13

before13:                                         ; preds = %body11
  %274 = mul i64 %273, 512
  %275 = getelementptr float, ptr %b1, i64 %274
  br label %body14

body14:                                           ; preds = %latch15, %before13
  %276 = phi i64 [ %15, %before13 ], [ %284, %latch15 ]
  %277 = sub i64 %276, %15
  %278 = sub i64 %273, %13
  %279 = mul i64 %278, 272
  %280 = add i64 %279, %277
  %281 = getelementptr float, ptr %tile, i64 %280
  %282 = load <16 x float>, ptr %281, align 4
  %283 = getelementptr float, ptr %275, i64 %276
  store <16 x float> %282, ptr %283, align 4
  br label %latch15

latch15:                                          ; preds = %body14
  %284 = add nuw nsw i64 %276, 16
  %285 = icmp slt i64 %284, %16
  br i1 %285, label %body14, label %286

286:                                              ; preds = %latch15
  br label %latch12

latch12:                                          ; preds = %286
  %287 = add nuw nsw i64 %273, 1
  %288 = icmp slt i64 %287, %14
  br i1 %288, label %body11, label %289

289:                                              ; preds = %latch12
  br label %latch3

latch3:                                           ; preds = %289
  %290 = icmp slt i64 %16, 512
  br i1 %290, label %body2, label %291

291:                                              ; preds = %latch3
  br label %latch

latch:                                            ; preds = %291
  %292 = icmp slt i64 %14, %12
  br i1 %292, label %body, label %293

293:                                              ; preds = %latch, %entry
  br label %before16

before16:                                         ; preds = %293
  br label %body17

body17:                                           ; preds = %latch18, %before16
  %294 = phi i64 [ 0, %before16 ], [ %503, %latch18 ]
  %295 = icmp eq i64 %294, 1
  %296 = select i1 %295, i64 %12, i64 %3
  %297 = select i1 %295, i64 %4, i64 %9
  %298 = add i64 %296, 15
  %299 = and i64 %298, -16
  %300 = icmp slt i64 %299, %297
  %301 = select i1 %300, i64 %299, i64 %297
  %302 = and i64 %297, -16
  %303 = icmp sgt i64 %302, %301
  %304 = select i1 %303, i64 %302, i64 %301
  br i1 %303, label %before19, label %473

before19:                                         ; preds = %body17
  br label %body20

body20:                                           ; preds = %latch21, %before19
  %305 = phi i64 [ %301, %before19 ], [ %306, %latch21 ]
  %306 = add i64 %305, 16
  br label %before22

before22:                                         ; preds = %body20
  br label %body23

body23:                                           ; preds = %latch24, %before22
  %307 = phi i64 [ 0, %before22 ], [ %308, %latch24 ]
  %308 = add i64 %307, 256
  br label %before26

before26:                                         ; preds = %body23
  br label %body27

body27:                                           ; preds = %latch28, %before26
  %309 = phi i64 [ %307, %before26 ], [ %450, %latch28 ]
  %310 = mul i64 %309, 512
  %311 = add i64 %310, 8192
  %312 = add i64 %311, %305
  %313 = getelementptr float, ptr %b0, i64 %312
  call void @llvm.prefetch.p0(ptr %313, i32 0, i32 3, i32 1)
  %314 = getelementptr float, ptr %313, i64 512
  call void @llvm.prefetch.p0(ptr %314, i32 0, i32 3, i32 1)
  %315 = getelementptr float, ptr %314, i64 512
  call void @llvm.prefetch.p0(ptr %315, i32 0, i32 3, i32 1)
  %316 = getelementptr float, ptr %315, i64 512
  call void @llvm.prefetch.p0(ptr %316, i32 0, i32 3, i32 1)
  %317 = getelementptr float, ptr %316, i64 512
  call void @llvm.prefetch.p0(ptr %317, i32 0, i32 3, i32 1)
  %318 = getelementptr float, ptr %317, i64 512
  call void @llvm.prefetch.p0(ptr %318, i32 0, i32 3, i32 1)
  %319 = getelementptr float, ptr %318, i64 512
  call void @llvm.prefetch.p0(ptr %319, i32 0, i32 3, i32 1)
  %320 = getelementptr float, ptr %319, i64 512
  call void @llvm.prefetch.p0(ptr %320, i32 0, i32 3, i32 1)
  %321 = getelementptr float, ptr %320, i64 512
  call void @llvm.prefetch.p0(ptr %321, i32 0, i32 3, i32 1)
  %322 = getelementptr float, ptr %321, i64 512
  call void @llvm.prefetch.p0(ptr %322, i32 0, i32 3, i32 1)
  %323 = getelementptr float, ptr %322, i64 512
  call void @llvm.prefetch.p0(ptr %323, i32 0, i32 3, i32 1)
  %324 = getelementptr float, ptr %323, i64 512
  call void @llvm.prefetch.p0(ptr %324, i32 0, i32 3, i32 1)
  %325 = getelementptr float, ptr %324, i64 512
  call void @llvm.prefetch.p0(ptr %325, i32 0, i32 3, i32 1)
  %326 = getelementptr float, ptr %325, i64 512
  call void @llvm.prefetch.p0(ptr %326, i32 0, i32 3, i32 1)
  %327 = getelementptr float, ptr %326, i64 512
  call void @llvm.prefetch.p0(ptr %327, i32 0, i32 3, i32 1)
  %328 = getelementptr float, ptr %327, i64 512
  call void @llvm.prefetch.p0(ptr %328, i32 0, i32 3, i32 1)
  br label %before29

before29:                                         ; preds = %body27
  br label %body30

body30:                                           ; preds = %latch31, %before29
  %329 = phi i64 [ %305, %before29 ], [ %447, %latch31 ]
  %330 = add i64 %329, %310
  %331 = getelementptr float, ptr %b0, i64 %330
  %332 = load <16 x float>, ptr %331, align 4
  %333 = getelementptr float, ptr %331, i64 512
  %334 = load <16 x float>, ptr %333, align 4
  %335 = getelementptr float, ptr %333, i64 512
  %336 = load <16 x float>, ptr %335, align 4
  %337 = getelementptr float, ptr %335, i64 512
  %338 = load <16 x float>, ptr %337, align 4
  %339 = getelementptr float, ptr %337, i64 512
  %340 = load <16 x float>, ptr %339, align 4
  %341 = getelementptr float, ptr %339, i64 512
  %342 = load <16 x float>, ptr %341, align 4
  %343 = getelementptr float, ptr %341, i64 512
  %344 = load <16 x float>, ptr %343, align 4
  %345 = getelementptr float, ptr %343, i64 512
  %346 = load <16 x float>, ptr %345, align 4
  %347 = getelementptr float, ptr %345, i64 512
  %348 = load <16 x float>, ptr %347, align 4
  %349 = getelementptr float, ptr %347, i64 512
  %350 = load <16 x float>, ptr %349, align 4
  %351 = getelementptr float, ptr %349, i64 512
  %352 = load <16 x float>, ptr %351, align 4
  %353 = getelementptr float, ptr %351, i64 512
  %354 = load <16 x float>, ptr %353, align 4
  %355 = getelementptr float, ptr %353, i64 512
  %356 = load <16 x float>, ptr %355, align 4
  %357 = getelementptr float, ptr %355, i64 512
  %358 = load <16 x float>, ptr %357, align 4
  %359 = getelementptr float, ptr %357, i64 512
  %360 = load <16 x float>, ptr %359, align 4
  %361 = getelementptr float, ptr %359, i64 512
  %362 = load <16 x float>, ptr %361, align 4
  %363 = shufflevector <16 x float> %332, <16 x float> %348, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %364 = shufflevector <16 x float> %332, <16 x float> %348, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %365 = shufflevector <16 x float> %334, <16 x float> %350, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %366 = shufflevector <16 x float> %334, <16 x float> %350, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %367 = shufflevector <16 x float> %336, <16 x float> %352, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %368 = shufflevector <16 x float> %336, <16 x float> %352, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %369 = shufflevector <16 x float> %338, <16 x float> %354, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %370 = shufflevector <16 x float> %338, <16 x float> %354, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %371 = shufflevector <16 x float> %340, <16 x float> %356, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %372 = shufflevector <16 x float> %340, <16 x float> %356, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %373 = shufflevector <16 x float> %342, <16 x float> %358, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %374 = shufflevector <16 x float> %342, <16 x float> %358, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %375 = shufflevector <16 x float> %344, <16 x float> %360, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %376 = shufflevector <16 x float> %344, <16 x float> %360, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %377 = shufflevector <16 x float> %346, <16 x float> %362, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %378 = shufflevector <16 x float> %346, <16 x float> %362, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %379 = shufflevector <16 x float> %363, <16 x float> %371, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %380 = shufflevector <16 x float> %363, <16 x float> %371, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %381 = shufflevector <16 x float> %365, <16 x float> %373, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %382 = shufflevector <16 x float> %365, <16 x float> %373, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %383 = shufflevector <16 x float> %367, <16 x float> %375, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %384 = shufflevector <16 x float> %367, <16 x float> %375, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %385 = shufflevector <16 x float> %369, <16 x float> %377, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %386 = shufflevector <16 x float> %369, <16 x float> %377, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %387 = shufflevector <16 x float> %364, <16 x float> %372, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %388 = shufflevector <16 x float> %364, <16 x float> %372, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %389 = shufflevector <16 x float> %366, <16 x float> %374, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %390 = shufflevector <16 x float> %366, <16 x float> %374, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %391 = shufflevector <16 x float> %368, <16 x float> %376, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %392 = shufflevector <16 x float> %368, <16 x float> %376, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %393 = shufflevector <16 x float> %370, <16 x float> %378, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %394 = shufflevector <16 x float> %370, <16 x float> %378, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %395 = shufflevector <16 x float> %379, <16 x float> %383, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %396 = shufflevector <16 x float> %379, <16 x float> %383, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %397 = shufflevector <16 x float> %381, <16 x float> %385, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %398 = shufflevector <16 x float> %381, <16 x float> %385, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %399 = shufflevector <16 x float> %380, <16 x float> %384, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %400 = shufflevector <16 x float> %380, <16 x float> %384, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %401 = shufflevector <16 x float> %382, <16 x float> %386, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %402 = shufflevector <16 x float> %382, <16 x float> %386, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %403 = shufflevector <16 x float> %387, <16 x float> %391, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %404 = shufflevector <16 x float> %387, <16 x float> %391, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %405 = shufflevector <16 x float> %389, <16 x float> %393, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %406 = shufflevector <16 x float> %389, <16 x float> %393, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %407 = shufflevector <16 x float> %388, <16 x float> %392, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %408 = shufflevector <16 x float> %388, <16 x float> %392, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %409 = shufflevector <16 x float> %390, <16 x float> %394, <16 x i32> <i32 0, i32 1, i32 16, i32 17, i32 4, i32 5, i32 20, i32 21, i32 8, i32 9, i32 24, i32 25, i32 12, i32 13, i32 28, i32 29>
  %410 = shufflevector <16 x float> %390, <16 x float> %394, <16 x i32> <i32 2, i32 3, i32 18, i32 19, i32 6, i32 7, i32 22, i32 23, i32 10, i32 11, i32 26, i32 27, i32 14, i32 15, i32 30, i32 31>
  %411 = shufflevector <16 x float> %395, <16 x float> %397, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %412 = shufflevector <16 x float> %395, <16 x float> %397, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %413 = shufflevector <16 x float> %396, <16 x float> %398, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %414 = shufflevector <16 x float> %396, <16 x float> %398, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %415 = shufflevector <16 x float> %399, <16 x float> %401, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %416 = shufflevector <16 x float> %399, <16 x float> %401, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %417 = shufflevector <16 x float> %400, <16 x float> %402, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %418 = shufflevector <16 x float> %400, <16 x float> %402, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %419 = shufflevector <16 x float> %403, <16 x float> %405, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %420 = shufflevector <16 x float> %403, <16 x float> %405, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %421 = shufflevector <16 x float> %404, <16 x float> %406, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %422 = shufflevector <16 x float> %404, <16 x float> %406, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %423 = shufflevector <16 x float> %407, <16 x float> %409, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %424 = shufflevector <16 x float> %407, <16 x float> %409, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %425 = shufflevector <16 x float> %408, <16 x float> %410, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %426 = shufflevector <16 x float> %408, <16 x float> %410, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %427 = sub i64 %329, %305
  %428 = mul i64 %427, 272
  %429 = sub i64 %309, %307
  %430 = add i64 %428, %429
  %431 = getelementptr float, ptr %tile25, i64 %430
  store <16 x float> %411, ptr %431, align 4
  %432 = getelementptr float, ptr %431, i64 272
  store <16 x float> %412, ptr %432, align 4
  %433 = getelementptr float, ptr %432, i64 272
  store <16 x float> %413, ptr %433, align 4
  %434 = getelementptr float, ptr %433, i64 272
  store <16 x float> %414, ptr %434, align 4
  %435 = getelementptr float, ptr %434, i64 272
  store <16 x float> %415, ptr %435, align 4
  %436 = getelementptr float, ptr %435, i64 272
  store <16 x float> %416, ptr %436, align 4
  %437 = getelementptr float, ptr %436, i64 272
  store <16 x float> %417, ptr %437, align 4
  %438 = getelementptr float, ptr %437, i64 272
  store <16 x float> %418, ptr %438, align 4
  %439 = getelementptr float, ptr %438, i64 272
  store <16 x float> %419, ptr %439, align 4
  %440 = getelementptr float, ptr %439, i64 272
  store <16 x float> %420, ptr %440, align 4
  %441 = getelementptr float, ptr %440, i64 272
  store <16 x float> %421, ptr %441, align 4
  %442 = getelementptr float, ptr %441, i64 272
  store <16 x float> %422, ptr %442, align 4
  %443 = getelementptr float, ptr %442, i64 272
  store <16 x float> %423, ptr %443, align 4
  %444 = getelementptr float, ptr %443, i64 272
  store <16 x float> %424, ptr %444, align 4
  %445 = getelementptr float, ptr %444, i64 272
  store <16 x float> %425, ptr %445, align 4
  %446 = getelementptr float, ptr %445, i64 272
  store <16 x float> %426, ptr %446, align 4
  br label %latch31

latch31:                                          ; preds = %body30
  %447 = add nuw nsw i64 %329, 16
  %448 = icmp slt i64 %447, %306
  br i1 %448, label %body30, label %449

449:                                              ; preds = %latch31
  br label %latch28

latch28:                                          ; preds = %449
  %450 = add nuw nsw i64 %309, 16
  %451 = icmp slt i64 %450, %308
  br i1 %451, label %body27, label %452

452:                                              ; preds = %latch28
  br label %before32

before32:                                         ; preds = %452
  br label %body33

body33:                                           ; preds = %latch34, %before32
  %453 = phi i64 [ %305, %before32 ], [ %467, %latch34 ]
  br label %before35

before35:                                         ; preds = %body33
  %454 = mul i64 %453, 512
  %455 = getelementptr float, ptr %b1, i64 %454
  br label %body36

body36:                                           ; preds = %latch37, %before35
  %456 = phi i64 [ %307, %before35 ], [ %464, %latch37 ]
  %457 = sub i64 %456, %307
  %458 = sub i64 %453, %305
  %459 = mul i64 %458, 272
  %460 = add i64 %459, %457
  %461 = getelementptr float, ptr %tile25, i64 %460
  %462 = load <16 x float>, ptr %461, align 4
  %463 = getelementptr float, ptr %455, i64 %456
  store <16 x float> %462, ptr %463, align 4
  br label %latch37

latch37:                                          ; preds = %body36
  %464 = add nuw nsw i64 %456, 16
  %465 = icmp slt i64 %464, %308
  br i1 %465, label %body36, label %466

466:                                              ; preds = %latch37
  br label %latch34

latch34:                                          ; preds = %466
  %467 = add nuw nsw i64 %453, 1
  %468 = icmp slt i64 %467, %306
  br i1 %468, label %body33, label %469

469:                                              ; preds = %latch34
  br label %latch24

latch24:                                          ; preds = %469
  %470 = icmp slt i64 %308, 512
  br i1 %470, label %body23, label %471

471:                                              ; preds = %latch24
  br label %latch21

latch21:                                          ; preds = %471
  %472 = icmp slt i64 %306, %304
  br i1 %472, label %body20, label %473

473:                                              ; preds = %latch21, %body17
  br label %before38

before38:                                         ; preds = %473
  br label %body39

body39:                                           ; preds = %latch40, %before38
  %474 = phi i64 [ 0, %before38 ], [ %500, %latch40 ]
  %475 = icmp eq i64 %474, 1
  %476 = select i1 %475, i64 %304, i64 %296
  %477 = select i1 %475, i64 %297, i64 %301
  %478 = icmp slt i64 %476, %477
  br i1 %478, label %before41, label %499

before41:                                         ; preds = %body39
  br label %body42

body42:                                           ; preds = %latch43, %before41
  %479 = phi i64 [ %476, %before41 ], [ %497, %latch43 ]
  br label %before44

before44:                                         ; preds = %body42
  %480 = getelementptr float, ptr %b0, i64 %479
  %481 = mul i64 %479, 512
  %482 = getelementptr float, ptr %b1, i64 %481
  br label %body45

body45:                                           ; preds = %latch46, %before44
  %483 = phi i64 [ 0, %before44 ], [ %494, %latch46 ]
  %484 = mul i64 %483, 512
  %485 = getelementptr float, ptr %480, i64 %484
  %486 = getelementptr float, ptr %485, <16 x i32> <i32 0, i32 512, i32 1024, i32 1536, i32 2048, i32 2560, i32 3072, i32 3584, i32 4096, i32 4608, i32 5120, i32 5632, i32 6144, i32 6656, i32 7168, i32 7680>
  %487 = call <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr> %486, i32 4, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>, <16 x float> zeroinitializer)
  %488 = getelementptr float, ptr %482, i64 %483
  store <16 x float> %487, ptr %488, align 4
  %489 = add i64 %484, 8192
  %490 = getelementptr float, ptr %480, i64 %489
  %491 = getelementptr float, ptr %490, <16 x i32> <i32 0, i32 512, i32 1024, i32 1536, i32 2048, i32 2560, i32 3072, i32 3584, i32 4096, i32 4608, i32 5120, i32 5632, i32 6144, i32 6656, i32 7168, i32 7680>
  %492 = call <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr> %491, i32 4, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>, <16 x float> zeroinitializer)
  %493 = getelementptr float, ptr %488, i64 16
  store <16 x float> %492, ptr %493, align 4
  br label %latch46

latch46:                                          ; preds = %body45
  %494 = add nuw nsw i64 %483, 32
  %495 = icmp slt i64 %494, 512
  br i1 %495, label %body45, label %496

496:                                              ; preds = %latch46
  br label %latch43

latch43:                                          ; preds = %496
  %497 = add nuw nsw i64 %479, 1
  %498 = icmp slt i64 %497, %477
  br i1 %498, label %body42, label %499

499:                                              ; preds = %latch43, %body39
  br label %latch40

latch40:                                          ; preds = %499
  %500 = add nuw nsw i64 %474, 1
  %501 = icmp slt i64 %500, 2
  br i1 %501, label %body39, label %502

502:                                              ; preds = %latch40
  br label %latch18

latch18:                                          ; preds = %502
  %503 = add nuw nsw i64 %294, 1
  %504 = icmp slt i64 %503, 2
  br i1 %504, label %body17, label %505

505:                                              ; preds = %latch18
  ret void
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite)
declare void @llvm.prefetch.p0(ptr nocapture readonly, i32 immarg, i32 immarg, i32 immarg) #1

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(read)
declare <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr>, i32 immarg, <16 x i1>, <16 x float>) #2

attributes #0 = { nounwind "prefer-vector-width"="512" "target-cpu"="znver4" "target-features"="+adx,+aes,+avx,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,+avx512vpopcntdq,+bmi,+bmi2,+cx16,+f16c,+fma,+gfni,+lzcnt,+movbe,+pclmul,+popcnt,+prfchw,+sahf,+sha,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,-amx-bf16,-amx-fp16,-amx-int8,-amx-tile,-avx512fp16,-avx512vp2intersect,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-fma4,-sha512,-tbm,-xop" }
attributes #1 = { nocallback nofree nosync nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #2 = { nocallback nofree nosync nounwind willreturn memory(read) }
