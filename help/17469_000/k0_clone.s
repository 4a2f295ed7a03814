	.text
	.file	"vesta_5a0c9bdf0e5412e019e026c607f1abc7"
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
.LCPI0_0:
	.quad	0
	.quad	1
	.quad	8
	.quad	9
	.quad	4
	.quad	5
	.quad	12
	.quad	13
.LCPI0_1:
	.quad	2
	.quad	3
	.quad	10
	.quad	11
	.quad	6
	.quad	7
	.quad	14
	.quad	15
.LCPI0_2:
	.long	0
	.long	16
	.long	2
	.long	18
	.long	4
	.long	20
	.long	6
	.long	22
	.long	8
	.long	24
	.long	10
	.long	26
	.long	12
	.long	28
	.long	14
	.long	30
.LCPI0_3:
	.long	1
	.long	17
	.long	3
	.long	19
	.long	5
	.long	21
	.long	7
	.long	23
	.long	9
	.long	25
	.long	11
	.long	27
	.long	13
	.long	29
	.long	15
	.long	31
.LCPI0_4:
	.long	0
	.long	512
	.long	1024
	.long	1536
	.long	2048
	.long	2560
	.long	3072
	.long	3584
	.long	4096
	.long	4608
	.long	5120
	.long	5632
	.long	6144
	.long	6656
	.long	7168
	.long	7680
	.text
	.globl	vesta_5a0c9bdf0e5412e019e026c607f1abc7
	.p2align	4, 0x90
	.type	vesta_5a0c9bdf0e5412e019e026c607f1abc7,@function
vesta_5a0c9bdf0e5412e019e026c607f1abc7:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbx
	andq	$-64, %rsp
	subq	$156800, %rsp
	movq	(%rdi), %rax
	movq	8(%rdi), %rdx
	movq	%rcx, 32(%rsp)
	leaq	127(%rcx), %r9
	andq	$-128, %r9
	cmpq	%r8, %r9
	cmovgeq	%r8, %r9
	movq	%r8, 40(%rsp)
	andq	$-128, %r8
	cmpq	%r9, %r8
	cmovleq	%r9, %r8
	movq	%r8, 16(%rsp)
	movq	%r9, 24(%rsp)
	jle	.LBB0_1
	vmovapd	.LCPI0_0(%rip), %zmm0
	vmovapd	.LCPI0_1(%rip), %zmm1
	vmovaps	.LCPI0_2(%rip), %zmm2
	vmovaps	.LCPI0_3(%rip), %zmm3
	movq	%r9, %r10
	.p2align	4, 0x90
.LBB0_3:
	leaq	128(%r10), %r11
	xorl	%ebx, %ebx
	.p2align	4, 0x90
.LBB0_4:
	leaq	256(%rbx), %r14
	movq	%rbx, %r15
	.p2align	4, 0x90
.LBB0_5:
	movq	%r15, %r12
	shlq	$9, %r12
	leaq	(%r12,%r10), %rcx
	prefetcht0	32768(%rax,%rcx,4)
	prefetcht0	32832(%rax,%rcx,4)
	prefetcht0	32896(%rax,%rcx,4)
	prefetcht0	32960(%rax,%rcx,4)
	prefetcht0	33024(%rax,%rcx,4)
	prefetcht0	33088(%rax,%rcx,4)
	prefetcht0	33152(%rax,%rcx,4)
	prefetcht0	33216(%rax,%rcx,4)
	prefetcht0	34816(%rax,%rcx,4)
	prefetcht0	34880(%rax,%rcx,4)
	prefetcht0	34944(%rax,%rcx,4)
	prefetcht0	35008(%rax,%rcx,4)
	prefetcht0	35072(%rax,%rcx,4)
	prefetcht0	35136(%rax,%rcx,4)
	prefetcht0	35200(%rax,%rcx,4)
	prefetcht0	35264(%rax,%rcx,4)
	prefetcht0	36864(%rax,%rcx,4)
	prefetcht0	36928(%rax,%rcx,4)
	prefetcht0	36992(%rax,%rcx,4)
	prefetcht0	37056(%rax,%rcx,4)
	prefetcht0	37120(%rax,%rcx,4)
	prefetcht0	37184(%rax,%rcx,4)
	prefetcht0	37248(%rax,%rcx,4)
	prefetcht0	37312(%rax,%rcx,4)
	prefetcht0	38912(%rax,%rcx,4)
	prefetcht0	38976(%rax,%rcx,4)
	prefetcht0	39040(%rax,%rcx,4)
	prefetcht0	39104(%rax,%rcx,4)
	prefetcht0	39168(%rax,%rcx,4)
	prefetcht0	39232(%rax,%rcx,4)
	prefetcht0	39296(%rax,%rcx,4)
	prefetcht0	39360(%rax,%rcx,4)
	prefetcht0	40960(%rax,%rcx,4)
	prefetcht0	41024(%rax,%rcx,4)
	prefetcht0	41088(%rax,%rcx,4)
	prefetcht0	41152(%rax,%rcx,4)
	prefetcht0	41216(%rax,%rcx,4)
	prefetcht0	41280(%rax,%rcx,4)
	prefetcht0	41344(%rax,%rcx,4)
	prefetcht0	41408(%rax,%rcx,4)
	prefetcht0	43008(%rax,%rcx,4)
	prefetcht0	43072(%rax,%rcx,4)
	prefetcht0	43136(%rax,%rcx,4)
	prefetcht0	43200(%rax,%rcx,4)
	prefetcht0	43264(%rax,%rcx,4)
	prefetcht0	43328(%rax,%rcx,4)
	prefetcht0	43392(%rax,%rcx,4)
	prefetcht0	43456(%rax,%rcx,4)
	prefetcht0	45056(%rax,%rcx,4)
	prefetcht0	45120(%rax,%rcx,4)
	prefetcht0	45184(%rax,%rcx,4)
	prefetcht0	45248(%rax,%rcx,4)
	prefetcht0	45312(%rax,%rcx,4)
	prefetcht0	45376(%rax,%rcx,4)
	prefetcht0	45440(%rax,%rcx,4)
	prefetcht0	45504(%rax,%rcx,4)
	prefetcht0	47104(%rax,%rcx,4)
	prefetcht0	47168(%rax,%rcx,4)
	prefetcht0	47232(%rax,%rcx,4)
	prefetcht0	47296(%rax,%rcx,4)
	prefetcht0	47360(%rax,%rcx,4)
	prefetcht0	47424(%rax,%rcx,4)
	prefetcht0	47488(%rax,%rcx,4)
	prefetcht0	47552(%rax,%rcx,4)
	prefetcht0	49152(%rax,%rcx,4)
	prefetcht0	49216(%rax,%rcx,4)
	prefetcht0	49280(%rax,%rcx,4)
	prefetcht0	49344(%rax,%rcx,4)
	prefetcht0	49408(%rax,%rcx,4)
	prefetcht0	49472(%rax,%rcx,4)
	prefetcht0	49536(%rax,%rcx,4)
	prefetcht0	49600(%rax,%rcx,4)
	prefetcht0	51200(%rax,%rcx,4)
	prefetcht0	51264(%rax,%rcx,4)
	prefetcht0	51328(%rax,%rcx,4)
	prefetcht0	51392(%rax,%rcx,4)
	prefetcht0	51456(%rax,%rcx,4)
	prefetcht0	51520(%rax,%rcx,4)
	prefetcht0	51584(%rax,%rcx,4)
	prefetcht0	51648(%rax,%rcx,4)
	prefetcht0	53248(%rax,%rcx,4)
	prefetcht0	53312(%rax,%rcx,4)
	prefetcht0	53376(%rax,%rcx,4)
	prefetcht0	53440(%rax,%rcx,4)
	prefetcht0	53504(%rax,%rcx,4)
	prefetcht0	53568(%rax,%rcx,4)
	prefetcht0	53632(%rax,%rcx,4)
	prefetcht0	53696(%rax,%rcx,4)
	prefetcht0	55296(%rax,%rcx,4)
	prefetcht0	55360(%rax,%rcx,4)
	prefetcht0	55424(%rax,%rcx,4)
	prefetcht0	55488(%rax,%rcx,4)
	prefetcht0	55552(%rax,%rcx,4)
	prefetcht0	55616(%rax,%rcx,4)
	prefetcht0	55680(%rax,%rcx,4)
	prefetcht0	55744(%rax,%rcx,4)
	prefetcht0	57344(%rax,%rcx,4)
	prefetcht0	57408(%rax,%rcx,4)
	prefetcht0	57472(%rax,%rcx,4)
	prefetcht0	57536(%rax,%rcx,4)
	prefetcht0	57600(%rax,%rcx,4)
	prefetcht0	57664(%rax,%rcx,4)
	prefetcht0	57728(%rax,%rcx,4)
	prefetcht0	57792(%rax,%rcx,4)
	prefetcht0	59392(%rax,%rcx,4)
	prefetcht0	59456(%rax,%rcx,4)
	prefetcht0	59520(%rax,%rcx,4)
	prefetcht0	59584(%rax,%rcx,4)
	prefetcht0	59648(%rax,%rcx,4)
	prefetcht0	59712(%rax,%rcx,4)
	prefetcht0	59776(%rax,%rcx,4)
	prefetcht0	59840(%rax,%rcx,4)
	prefetcht0	61440(%rax,%rcx,4)
	prefetcht0	61504(%rax,%rcx,4)
	prefetcht0	61568(%rax,%rcx,4)
	prefetcht0	61632(%rax,%rcx,4)
	prefetcht0	61696(%rax,%rcx,4)
	prefetcht0	61760(%rax,%rcx,4)
	prefetcht0	61824(%rax,%rcx,4)
	prefetcht0	61888(%rax,%rcx,4)
	prefetcht0	63488(%rax,%rcx,4)
	prefetcht0	63552(%rax,%rcx,4)
	prefetcht0	63616(%rax,%rcx,4)
	prefetcht0	63680(%rax,%rcx,4)
	prefetcht0	63744(%rax,%rcx,4)
	prefetcht0	63808(%rax,%rcx,4)
	prefetcht0	63872(%rax,%rcx,4)
	prefetcht0	63936(%rax,%rcx,4)
	movq	%r15, %rcx
	subq	%rbx, %rcx
	movq	%r10, %rsi
	.p2align	4, 0x90
.LBB0_6:
	leaq	(%rsi,%r12), %rdi
	vmovupd	(%rax,%rdi,4), %zmm4
	vmovupd	2048(%rax,%rdi,4), %zmm5
	vmovupd	4096(%rax,%rdi,4), %zmm6
	vmovupd	6144(%rax,%rdi,4), %zmm7
	vmovupd	8192(%rax,%rdi,4), %zmm8
	vmovupd	10240(%rax,%rdi,4), %zmm9
	vmovupd	12288(%rax,%rdi,4), %zmm10
	vmovupd	14336(%rax,%rdi,4), %zmm11
	vinsertf64x4	$1, 16384(%rax,%rdi,4), %zmm4, %zmm12
	vshuff64x2	$238, 16384(%rax,%rdi,4), %zmm4, %zmm4
	vinsertf64x4	$1, 18432(%rax,%rdi,4), %zmm5, %zmm13
	vshuff64x2	$238, 18432(%rax,%rdi,4), %zmm5, %zmm5
	vinsertf64x4	$1, 20480(%rax,%rdi,4), %zmm6, %zmm14
	vshuff64x2	$238, 20480(%rax,%rdi,4), %zmm6, %zmm6
	vinsertf64x4	$1, 22528(%rax,%rdi,4), %zmm7, %zmm15
	vshuff64x2	$238, 22528(%rax,%rdi,4), %zmm7, %zmm7
	vinsertf64x4	$1, 24576(%rax,%rdi,4), %zmm8, %zmm16
	vshuff64x2	$238, 24576(%rax,%rdi,4), %zmm8, %zmm8
	vinsertf64x4	$1, 26624(%rax,%rdi,4), %zmm9, %zmm17
	vshuff64x2	$238, 26624(%rax,%rdi,4), %zmm9, %zmm9
	vinsertf64x4	$1, 28672(%rax,%rdi,4), %zmm10, %zmm18
	vshuff64x2	$238, 28672(%rax,%rdi,4), %zmm10, %zmm10
	vinsertf64x4	$1, 30720(%rax,%rdi,4), %zmm11, %zmm19
	vshuff64x2	$238, 30720(%rax,%rdi,4), %zmm11, %zmm11
	vmovapd	%zmm12, %zmm20
	vpermt2pd	%zmm16, %zmm0, %zmm20
	vpermt2pd	%zmm16, %zmm1, %zmm12
	vmovapd	%zmm13, %zmm16
	vpermt2pd	%zmm17, %zmm0, %zmm16
	vpermt2pd	%zmm17, %zmm1, %zmm13
	vmovapd	%zmm14, %zmm17
	vpermt2pd	%zmm18, %zmm0, %zmm17
	vpermt2pd	%zmm18, %zmm1, %zmm14
	vmovapd	%zmm15, %zmm18
	vpermt2pd	%zmm19, %zmm0, %zmm18
	vpermt2pd	%zmm19, %zmm1, %zmm15
	vmovapd	%zmm4, %zmm19
	vpermt2pd	%zmm8, %zmm0, %zmm19
	vpermt2pd	%zmm8, %zmm1, %zmm4
	vmovapd	%zmm5, %zmm8
	vpermt2pd	%zmm9, %zmm0, %zmm8
	vpermt2pd	%zmm9, %zmm1, %zmm5
	vmovapd	%zmm6, %zmm9
	vpermt2pd	%zmm10, %zmm0, %zmm9
	vpermt2pd	%zmm10, %zmm1, %zmm6
	vmovapd	%zmm7, %zmm10
	vpermt2pd	%zmm11, %zmm0, %zmm10
	vpermt2pd	%zmm11, %zmm1, %zmm7
	vunpcklpd	%zmm17, %zmm20, %zmm11
	vunpckhpd	%zmm17, %zmm20, %zmm17
	vunpcklpd	%zmm18, %zmm16, %zmm20
	vunpckhpd	%zmm18, %zmm16, %zmm16
	vunpcklpd	%zmm14, %zmm12, %zmm18
	vunpckhpd	%zmm14, %zmm12, %zmm12
	vunpcklpd	%zmm15, %zmm13, %zmm14
	vunpckhpd	%zmm15, %zmm13, %zmm13
	vunpcklpd	%zmm9, %zmm19, %zmm15
	vunpckhpd	%zmm9, %zmm19, %zmm9
	vunpcklpd	%zmm10, %zmm8, %zmm19
	vunpckhpd	%zmm10, %zmm8, %zmm8
	vunpcklpd	%zmm6, %zmm4, %zmm10
	vunpckhpd	%zmm6, %zmm4, %zmm4
	vunpcklpd	%zmm7, %zmm5, %zmm6
	vunpckhpd	%zmm7, %zmm5, %zmm5
	vmovapd	%zmm11, %zmm7
	vpermt2ps	%zmm20, %zmm2, %zmm7
	vpermt2ps	%zmm20, %zmm3, %zmm11
	vmovapd	%zmm17, %zmm20
	vpermt2ps	%zmm16, %zmm2, %zmm20
	vpermt2ps	%zmm16, %zmm3, %zmm17
	vmovapd	%zmm18, %zmm16
	vpermt2ps	%zmm14, %zmm2, %zmm16
	vpermt2ps	%zmm14, %zmm3, %zmm18
	vmovapd	%zmm12, %zmm14
	vpermt2ps	%zmm13, %zmm2, %zmm14
	vpermt2ps	%zmm13, %zmm3, %zmm12
	vmovapd	%zmm15, %zmm13
	vpermt2ps	%zmm19, %zmm2, %zmm13
	vpermt2ps	%zmm19, %zmm3, %zmm15
	vmovapd	%zmm9, %zmm19
	vpermt2ps	%zmm8, %zmm2, %zmm19
	vpermt2ps	%zmm8, %zmm3, %zmm9
	vmovapd	%zmm10, %zmm8
	vpermt2ps	%zmm6, %zmm2, %zmm8
	vpermt2ps	%zmm6, %zmm3, %zmm10
	vmovapd	%zmm4, %zmm6
	vpermt2ps	%zmm5, %zmm2, %zmm6
	vpermt2ps	%zmm5, %zmm3, %zmm4
	movq	%rsi, %rdi
	subq	%r10, %rdi
	imulq	$272, %rdi, %rdi
	addq	%rcx, %rdi
	vmovups	%zmm7, 17472(%rsp,%rdi,4)
	vmovups	%zmm11, 18560(%rsp,%rdi,4)
	vmovups	%zmm20, 19648(%rsp,%rdi,4)
	vmovups	%zmm17, 20736(%rsp,%rdi,4)
	vmovups	%zmm16, 21824(%rsp,%rdi,4)
	vmovups	%zmm18, 22912(%rsp,%rdi,4)
	vmovups	%zmm14, 24000(%rsp,%rdi,4)
	vmovups	%zmm12, 25088(%rsp,%rdi,4)
	vmovups	%zmm13, 26176(%rsp,%rdi,4)
	vmovups	%zmm15, 27264(%rsp,%rdi,4)
	vmovups	%zmm19, 28352(%rsp,%rdi,4)
	vmovups	%zmm9, 29440(%rsp,%rdi,4)
	vmovups	%zmm8, 30528(%rsp,%rdi,4)
	vmovups	%zmm10, 31616(%rsp,%rdi,4)
	vmovups	%zmm6, 32704(%rsp,%rdi,4)
	vmovups	%zmm4, 33792(%rsp,%rdi,4)
	addq	$16, %rsi
	cmpq	%r11, %rsi
	jl	.LBB0_6
	addq	$16, %r15
	cmpq	%r14, %r15
	jl	.LBB0_5
	movq	%r10, %rcx
	.p2align	4, 0x90
.LBB0_9:
	movq	%rcx, %rsi
	shlq	$11, %rsi
	addq	%rdx, %rsi
	movq	%rcx, %rdi
	subq	%r10, %rdi
	imulq	$272, %rdi, %rdi
	movq	%rbx, %r8
	.p2align	4, 0x90
.LBB0_10:
	movq	%r8, %r15
	subq	%rbx, %r15
	addq	%rdi, %r15
	vmovups	17472(%rsp,%r15,4), %zmm4
	vmovups	%zmm4, (%rsi,%r8,4)
	addq	$16, %r8
	cmpq	%r14, %r8
	jl	.LBB0_10
	incq	%rcx
	cmpq	%r11, %rcx
	jl	.LBB0_9
	movq	%r14, %rbx
	cmpq	$512, %r14
	jl	.LBB0_4
	movq	%r11, %r10
	cmpq	16(%rsp), %r11
	movl	$0, %ecx
	jl	.LBB0_3
	jmp	.LBB0_14
.LBB0_1:
	xorl	%ecx, %ecx
	jmp	.LBB0_14
	.p2align	4, 0x90
.LBB0_34:
	movq	48(%rsp), %rcx
	incq	%rcx
	cmpq	$2, %rcx
	movq	24(%rsp), %r9
	jge	.LBB0_35
.LBB0_14:
	movq	%rcx, 48(%rsp)
	cmpq	$1, %rcx
	movq	32(%rsp), %r11
	cmoveq	16(%rsp), %r11
	movq	%r9, %rbx
	cmoveq	40(%rsp), %rbx
	leaq	15(%r11), %r10
	andq	$-16, %r10
	cmpq	%rbx, %r10
	cmovgeq	%rbx, %r10
	movq	%rbx, %r14
	andq	$-16, %r14
	cmpq	%r10, %r14
	cmovleq	%r10, %r14
	jle	.LBB0_15
	movq	%r10, %r12
	movq	%r10, 56(%rsp)
	.p2align	4, 0x90
.LBB0_17:
	leaq	16(%r12), %rdi
	xorl	%r13d, %r13d
	.p2align	4, 0x90
.LBB0_18:
	leaq	256(%r13), %rsi
	movq	%r13, %r8
	.p2align	4, 0x90
.LBB0_19:
	movq	%r8, %r10
	shlq	$9, %r10
	leaq	(%r10,%r12), %r15
	prefetcht0	32768(%rax,%r15,4)
	prefetcht0	34816(%rax,%r15,4)
	prefetcht0	36864(%rax,%r15,4)
	prefetcht0	38912(%rax,%r15,4)
	prefetcht0	40960(%rax,%r15,4)
	prefetcht0	43008(%rax,%r15,4)
	prefetcht0	45056(%rax,%r15,4)
	prefetcht0	47104(%rax,%r15,4)
	prefetcht0	49152(%rax,%r15,4)
	prefetcht0	51200(%rax,%r15,4)
	prefetcht0	53248(%rax,%r15,4)
	prefetcht0	55296(%rax,%r15,4)
	prefetcht0	57344(%rax,%r15,4)
	prefetcht0	59392(%rax,%r15,4)
	prefetcht0	61440(%rax,%r15,4)
	prefetcht0	63488(%rax,%r15,4)
	movq	%r12, %r15
	.p2align	4, 0x90
.LBB0_20:
	leaq	(%r15,%r10), %r9
	vmovupd	(%rax,%r9,4), %zmm0
	vmovupd	2048(%rax,%r9,4), %zmm1
	vmovupd	4096(%rax,%r9,4), %zmm2
	vmovupd	6144(%rax,%r9,4), %zmm3
	vmovupd	8192(%rax,%r9,4), %zmm4
	vmovupd	10240(%rax,%r9,4), %zmm5
	vmovupd	12288(%rax,%r9,4), %zmm6
	vmovupd	14336(%rax,%r9,4), %zmm7
	vinsertf64x4	$1, 16384(%rax,%r9,4), %zmm0, %zmm8
	vshuff64x2	$238, 16384(%rax,%r9,4), %zmm0, %zmm0
	vinsertf64x4	$1, 18432(%rax,%r9,4), %zmm1, %zmm9
	vshuff64x2	$238, 18432(%rax,%r9,4), %zmm1, %zmm1
	vinsertf64x4	$1, 20480(%rax,%r9,4), %zmm2, %zmm10
	vshuff64x2	$238, 20480(%rax,%r9,4), %zmm2, %zmm2
	vinsertf64x4	$1, 22528(%rax,%r9,4), %zmm3, %zmm11
	vshuff64x2	$238, 22528(%rax,%r9,4), %zmm3, %zmm3
	vinsertf64x4	$1, 24576(%rax,%r9,4), %zmm4, %zmm12
	vshuff64x2	$238, 24576(%rax,%r9,4), %zmm4, %zmm4
	vinsertf64x4	$1, 26624(%rax,%r9,4), %zmm5, %zmm13
	vshuff64x2	$238, 26624(%rax,%r9,4), %zmm5, %zmm5
	vinsertf64x4	$1, 28672(%rax,%r9,4), %zmm6, %zmm14
	vshuff64x2	$238, 28672(%rax,%r9,4), %zmm6, %zmm6
	vinsertf64x4	$1, 30720(%rax,%r9,4), %zmm7, %zmm15
	vshuff64x2	$238, 30720(%rax,%r9,4), %zmm7, %zmm7
	vmovapd	.LCPI0_0(%rip), %zmm16
	vmovapd	%zmm8, %zmm17
	vpermt2pd	%zmm12, %zmm16, %zmm17
	vmovapd	.LCPI0_1(%rip), %zmm18
	vpermt2pd	%zmm12, %zmm18, %zmm8
	vmovapd	%zmm9, %zmm12
	vpermt2pd	%zmm13, %zmm16, %zmm12
	vpermt2pd	%zmm13, %zmm18, %zmm9
	vmovapd	%zmm10, %zmm13
	vpermt2pd	%zmm14, %zmm16, %zmm13
	vpermt2pd	%zmm14, %zmm18, %zmm10
	vmovapd	%zmm11, %zmm14
	vpermt2pd	%zmm15, %zmm16, %zmm14
	vpermt2pd	%zmm15, %zmm18, %zmm11
	vmovapd	%zmm0, %zmm15
	vpermt2pd	%zmm4, %zmm16, %zmm15
	vpermt2pd	%zmm4, %zmm18, %zmm0
	vmovapd	%zmm1, %zmm4
	vpermt2pd	%zmm5, %zmm16, %zmm4
	vpermt2pd	%zmm5, %zmm18, %zmm1
	vmovapd	%zmm2, %zmm5
	vpermt2pd	%zmm6, %zmm16, %zmm5
	vpermt2pd	%zmm6, %zmm18, %zmm2
	vpermi2pd	%zmm7, %zmm3, %zmm16
	vpermt2pd	%zmm7, %zmm18, %zmm3
	vunpcklpd	%zmm13, %zmm17, %zmm6
	vunpckhpd	%zmm13, %zmm17, %zmm7
	vunpcklpd	%zmm14, %zmm12, %zmm13
	vunpckhpd	%zmm14, %zmm12, %zmm12
	vunpcklpd	%zmm10, %zmm8, %zmm14
	vunpckhpd	%zmm10, %zmm8, %zmm8
	vunpcklpd	%zmm11, %zmm9, %zmm10
	vunpckhpd	%zmm11, %zmm9, %zmm9
	vunpcklpd	%zmm5, %zmm15, %zmm11
	vunpckhpd	%zmm5, %zmm15, %zmm5
	vunpcklpd	%zmm16, %zmm4, %zmm15
	vunpckhpd	%zmm16, %zmm4, %zmm4
	vunpcklpd	%zmm2, %zmm0, %zmm16
	vunpckhpd	%zmm2, %zmm0, %zmm0
	vunpcklpd	%zmm3, %zmm1, %zmm2
	vunpckhpd	%zmm3, %zmm1, %zmm1
	vmovaps	.LCPI0_2(%rip), %zmm3
	vmovapd	%zmm6, %zmm17
	vpermt2ps	%zmm13, %zmm3, %zmm17
	vmovaps	.LCPI0_3(%rip), %zmm18
	vpermt2ps	%zmm13, %zmm18, %zmm6
	vmovapd	%zmm7, %zmm13
	vpermt2ps	%zmm12, %zmm3, %zmm13
	vpermt2ps	%zmm12, %zmm18, %zmm7
	vmovapd	%zmm14, %zmm12
	vpermt2ps	%zmm10, %zmm3, %zmm12
	vpermt2ps	%zmm10, %zmm18, %zmm14
	vmovapd	%zmm8, %zmm10
	vpermt2ps	%zmm9, %zmm3, %zmm10
	vpermt2ps	%zmm9, %zmm18, %zmm8
	vmovapd	%zmm11, %zmm9
	vpermt2ps	%zmm15, %zmm3, %zmm9
	vpermt2ps	%zmm15, %zmm18, %zmm11
	vmovapd	%zmm5, %zmm15
	vpermt2ps	%zmm4, %zmm3, %zmm15
	vpermt2ps	%zmm4, %zmm18, %zmm5
	vmovapd	%zmm16, %zmm4
	vpermt2ps	%zmm2, %zmm3, %zmm4
	vpermt2ps	%zmm2, %zmm18, %zmm16
	vpermi2ps	%zmm1, %zmm0, %zmm3
	vpermt2ps	%zmm1, %zmm18, %zmm0
	movq	%r15, %r9
	subq	%r12, %r9
	imulq	$272, %r9, %r9
	movq	%r8, %rcx
	subq	%r13, %rcx
	addq	%r9, %rcx
	vmovups	%zmm17, 64(%rsp,%rcx,4)
	vmovups	%zmm6, 1152(%rsp,%rcx,4)
	vmovups	%zmm13, 2240(%rsp,%rcx,4)
	vmovups	%zmm7, 3328(%rsp,%rcx,4)
	vmovups	%zmm12, 4416(%rsp,%rcx,4)
	vmovups	%zmm14, 5504(%rsp,%rcx,4)
	vmovups	%zmm10, 6592(%rsp,%rcx,4)
	vmovups	%zmm8, 7680(%rsp,%rcx,4)
	vmovups	%zmm9, 8768(%rsp,%rcx,4)
	vmovups	%zmm11, 9856(%rsp,%rcx,4)
	vmovups	%zmm15, 10944(%rsp,%rcx,4)
	vmovups	%zmm5, 12032(%rsp,%rcx,4)
	vmovups	%zmm4, 13120(%rsp,%rcx,4)
	vmovups	%zmm16, 14208(%rsp,%rcx,4)
	vmovups	%zmm3, 15296(%rsp,%rcx,4)
	vmovups	%zmm0, 16384(%rsp,%rcx,4)
	addq	$16, %r15
	cmpq	%rdi, %r15
	jl	.LBB0_20
	addq	$16, %r8
	cmpq	%rsi, %r8
	jl	.LBB0_19
	movq	%r12, %rcx
	.p2align	4, 0x90
.LBB0_23:
	movq	%rcx, %r8
	shlq	$11, %r8
	addq	%rdx, %r8
	movq	%r13, %r15
	.p2align	4, 0x90
.LBB0_24:
	movq	%r15, %r9
	subq	%r13, %r9
	movq	%rcx, %r10
	subq	%r12, %r10
	imulq	$272, %r10, %r10
	addq	%r9, %r10
	vmovupd	64(%rsp,%r10,4), %zmm0
	vmovupd	%zmm0, (%r8,%r15,4)
	addq	$16, %r15
	cmpq	%rsi, %r15
	jl	.LBB0_24
	incq	%rcx
	cmpq	%rdi, %rcx
	jl	.LBB0_23
	movq	%rsi, %r13
	cmpq	$512, %rsi
	jl	.LBB0_18
	xorl	%ecx, %ecx
	movq	%rdi, %r12
	cmpq	%r14, %rdi
	movq	56(%rsp), %r10
	jl	.LBB0_17
	jmp	.LBB0_28
	.p2align	4, 0x90
.LBB0_15:
	xorl	%ecx, %ecx
	jmp	.LBB0_28
	.p2align	4, 0x90
.LBB0_33:
	incq	%rcx
	cmpq	$2, %rcx
	jge	.LBB0_34
.LBB0_28:
	cmpq	$1, %rcx
	movq	%r11, %rsi
	cmoveq	%r14, %rsi
	movq	%r10, %rdi
	cmoveq	%rbx, %rdi
	cmpq	%rdi, %rsi
	jge	.LBB0_33
	.p2align	4, 0x90
.LBB0_30:
	leaq	(%rax,%rsi,4), %r8
	movq	%rsi, %r15
	shlq	$11, %r15
	addq	%rdx, %r15
	xorl	%r12d, %r12d
	.p2align	4, 0x90
.LBB0_31:
	movq	%r12, %r9
	shlq	$11, %r9
	addq	%r8, %r9
	vmovaps	.LCPI0_4(%rip), %zmm0
	kxnorw	%k0, %k0, %k1
	vxorps	%xmm1, %xmm1, %xmm1
	kxnorw	%k0, %k0, %k2
	vxorps	%xmm2, %xmm2, %xmm2
	vgatherdps	(%r9,%zmm0,4), %zmm2 {%k2}
	vmovups	%zmm2, (%r15,%r12,4)
	vgatherdps	32768(%r9,%zmm0,4), %zmm1 {%k1}
	vmovups	%zmm1, 64(%r15,%r12,4)
	addq	$32, %r12
	cmpq	$512, %r12
	jl	.LBB0_31
	incq	%rsi
	cmpq	%rdi, %rsi
	jl	.LBB0_30
	jmp	.LBB0_33
.LBB0_35:
	leaq	-40(%rbp), %rsp
	popq	%rbx
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popq	%rbp
	vzeroupper
	retq
.Lfunc_end0:
	.size	vesta_5a0c9bdf0e5412e019e026c607f1abc7, .Lfunc_end0-vesta_5a0c9bdf0e5412e019e026c607f1abc7

	.section	".note.GNU-stack","",@progbits
