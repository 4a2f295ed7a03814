	.text
	.file	"vesta_445bc3e1dbb13dad3021a16e5d7db0af"
	.globl	vesta_445bc3e1dbb13dad3021a16e5d7db0af
	.p2align	4, 0x90
	.type	vesta_445bc3e1dbb13dad3021a16e5d7db0af,@function
vesta_445bc3e1dbb13dad3021a16e5d7db0af:
	cmpq	%r8, %rcx
	jge	.LBB0_5
	movq	(%rdi), %rax
	vxorps	%xmm0, %xmm0, %xmm0
	.p2align	4, 0x90
.LBB0_2:
	movq	%rcx, %rdx
	shlq	$13, %rdx
	addq	%rax, %rdx
	xorl	%esi, %esi
	.p2align	4, 0x90
.LBB0_3:
	vmovups	%zmm0, (%rdx,%rsi,4)
	vmovups	%zmm0, 64(%rdx,%rsi,4)
	addq	$32, %rsi
	cmpq	$2048, %rsi
	jl	.LBB0_3
	incq	%rcx
	cmpq	%r8, %rcx
	jl	.LBB0_2
.LBB0_5:
	vzeroupper
	retq
.Lfunc_end0:
	.size	vesta_445bc3e1dbb13dad3021a16e5d7db0af, .Lfunc_end0-vesta_445bc3e1dbb13dad3021a16e5d7db0af

	.section	".note.GNU-stack","",@progbits
