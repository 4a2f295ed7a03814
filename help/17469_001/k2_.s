	.text
	.file	"vesta_f77824e3d87d292f6b981a36f74545d0"
	.globl	vesta_f77824e3d87d292f6b981a36f74545d0
	.p2align	4, 0x90
	.type	vesta_f77824e3d87d292f6b981a36f74545d0,@function
vesta_f77824e3d87d292f6b981a36f74545d0:
	cmpq	%r8, %rcx
	jge	.LBB0_5
	movq	(%rdi), %rax
	movq	8(%rdi), %rdx
	.p2align	4, 0x90
.LBB0_2:
	movq	%rcx, %rsi
	shlq	$13, %rsi
	leaq	(%rax,%rsi), %rdi
	addq	%rdx, %rsi
	xorl	%r9d, %r9d
	.p2align	4, 0x90
.LBB0_3:
	vmovups	(%rdi,%r9,4), %zmm0
	vmovups	%zmm0, (%rsi,%r9,4)
	vmovups	64(%rdi,%r9,4), %zmm0
	vmovups	%zmm0, 64(%rsi,%r9,4)
	addq	$32, %r9
	cmpq	$2048, %r9
	jl	.LBB0_3
	incq	%rcx
	cmpq	%r8, %rcx
	jl	.LBB0_2
.LBB0_5:
	vzeroupper
	retq
.Lfunc_end0:
	.size	vesta_f77824e3d87d292f6b981a36f74545d0, .Lfunc_end0-vesta_f77824e3d87d292f6b981a36f74545d0

	.section	".note.GNU-stack","",@progbits
