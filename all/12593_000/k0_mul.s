	.text
	.file	"vesta_74d52774f91e30b52c0935686443a1cb"
	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI0_0:
	.long	0x40a00000
	.section	.rodata.cst32,"aM",@progbits,32
	.p2align	5, 0x0
.LCPI0_1:
	.long	0
	.long	1
	.long	2
	.long	3
	.long	4
	.long	5
	.long	6
	.long	7
	.section	.rodata.cst8,"aM",@progbits,8
.LCPI0_2:
	.byte	0
	.byte	1
	.byte	2
	.byte	3
	.byte	4
	.byte	5
	.byte	6
	.byte	7
	.text
	.globl	vesta_74d52774f91e30b52c0935686443a1cb
	.p2align	4, 0x90
	.type	vesta_74d52774f91e30b52c0935686443a1cb,@function
vesta_74d52774f91e30b52c0935686443a1cb:
	cmpq	%r8, %rcx
	jge	.LBB0_10
	pushq	%r15
	pushq	%r14
	pushq	%rbx
	movq	(%rdi), %rax
	movq	8(%rdi), %rdx
	movq	(%rsi), %rsi
	imulq	%rsi, %rsi
	movl	$32, %edi
	vbroadcastss	.LCPI0_0(%rip), %ymm0
	movl	$8, %r9d
	vpmovsxbd	.LCPI0_2(%rip), %ymm1
	vpcmpeqd	%ymm2, %ymm2, %ymm2
	jmp	.LBB0_2
	.p2align	4, 0x90
.LBB0_8:
	incq	%rcx
	cmpq	%r8, %rcx
	jge	.LBB0_9
.LBB0_2:
	movq	%rcx, %r11
	shlq	$5, %r11
	movq	%rsi, %r10
	subq	%r11, %r10
	cmpq	$32, %r10
	cmovgeq	%rdi, %r10
	movq	%r10, %r11
	andq	$-16, %r11
	jle	.LBB0_5
	movq	%rcx, %rbx
	shlq	$7, %rbx
	leaq	(%rax,%rbx), %r14
	addq	%rdx, %rbx
	xorl	%r15d, %r15d
	.p2align	4, 0x90
.LBB0_4:
	vmulps	(%r14,%r15,4), %ymm0, %ymm3
	vmovups	%ymm3, (%rbx,%r15,4)
	vmulps	32(%r14,%r15,4), %ymm0, %ymm3
	vmovups	%ymm3, 32(%rbx,%r15,4)
	addq	$16, %r15
	cmpq	%r11, %r15
	jl	.LBB0_4
.LBB0_5:
	cmpq	%r10, %r11
	jge	.LBB0_8
	movq	%rcx, %rbx
	shlq	$7, %rbx
	leaq	(%rax,%rbx), %r14
	addq	%rdx, %rbx
	.p2align	4, 0x90
.LBB0_7:
	movq	%r10, %r15
	subq	%r11, %r15
	cmpq	$8, %r15
	cmovgel	%r9d, %r15d
	vmovd	%r15d, %xmm3
	vpbroadcastd	%xmm3, %ymm3
	vpmaxud	%ymm1, %ymm3, %ymm3
	vpcmpeqd	%ymm1, %ymm3, %ymm3
	vpxor	%ymm2, %ymm3, %ymm3
	vmaskmovps	(%r14,%r11,4), %ymm3, %ymm4
	vmulps	%ymm0, %ymm4, %ymm4
	vmaskmovps	%ymm4, %ymm3, (%rbx,%r11,4)
	addq	$8, %r11
	cmpq	%r10, %r11
	jl	.LBB0_7
	jmp	.LBB0_8
.LBB0_9:
	popq	%rbx
	popq	%r14
	popq	%r15
.LBB0_10:
	vzeroupper
	retq
.Lfunc_end0:
	.size	vesta_74d52774f91e30b52c0935686443a1cb, .Lfunc_end0-vesta_74d52774f91e30b52c0935686443a1cb

	.section	".note.GNU-stack","",@progbits
