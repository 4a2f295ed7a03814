"""The rows of the sweep. Each is an operator of PyTorch's op_db as an expression on inputs of two sizes.

A line is `name: expression`, where the name is op_db's, with what sets a further row of the operator apart after a
space; a lone name stands for the call of that function on x. Rows are only added: figures of different days compare.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

__all__ = ["ROWS", "SIZES", "Row", "inputs_of"]

SIZES = {"small": 8, "large": 2**21}  # elements of the main input

# On x, normally distributed, unless the expression says otherwise; u is uniform in (0.1, 0.9).
POINTWISE = """
abs acos:torch.acos(u) acosh:torch.acosh(u+1) angle asin:torch.asin(u) asinh atan atanh:torch.atanh(u) ceil
conj_physical cos cosh deg2rad digamma:torch.digamma(u) erf erfc erfinv:torch.erfinv(u) exp exp2 expm1 floor frac frexp
i0 isfinite isinf isnan isneginf isposinf isreal lgamma:torch.lgamma(u) log:torch.log(u) log10:torch.log10(u)
log1p:torch.log1p(u) log2:torch.log2(u) logical_not logit:torch.logit(u) nan_to_num neg positive rad2deg real reciprocal
round round_decimals:torch.round(x,decimals=3) rsqrt:torch.rsqrt(u) sgn sigmoid sign signbit sin sinc sinh
sqrt:torch.sqrt(u) square tan tanh trunc mvlgamma:torch.mvlgamma(u+2,2) polygamma:torch.polygamma(1,u)
bitwise_not:torch.bitwise_not(i) fill:torch.fill(x,1.5) bfloat16:x.bfloat16() half:x.half() double:x.double()
int:x.int() long:x.long() byte:u.byte() char:x.char() bool:x.bool() float:i.float() chalf:x.chalf() cfloat:x.cfloat()
clone contiguous:x.contiguous() clamp:torch.clamp(x,-0.5,0.5) clamp_max:torch.clamp_max(x,0.5)
clamp_min:torch.clamp_min(x,0.5) to:x.to(torch.float64) to_bfloat16:x.to(torch.bfloat16)
nn.functional.celu:F.celu(x) nn.functional.elu:F.elu(x) nn.functional.gelu:F.gelu(x)
nn.functional.gelu_tanh:F.gelu(x,approximate='tanh') nn.functional.glu:F.glu(x) nn.functional.hardshrink:F.hardshrink(x)
nn.functional.hardsigmoid:F.hardsigmoid(x) nn.functional.hardswish:F.hardswish(x) nn.functional.hardtanh:F.hardtanh(x)
nn.functional.leaky_relu:F.leaky_relu(x) nn.functional.logsigmoid:F.logsigmoid(x) nn.functional.mish:F.mish(x)
nn.functional.prelu:F.prelu(x,one) nn.functional.relu:F.relu(x) nn.functional.relu6:F.relu6(x)
nn.functional.rrelu:F.rrelu(x) nn.functional.selu:F.selu(x) nn.functional.silu:F.silu(x)
nn.functional.softplus:F.softplus(x) nn.functional.softshrink:F.softshrink(x) nn.functional.softsign:F.softsign(x)
nn.functional.tanhshrink:F.tanhshrink(x) nn.functional.threshold:F.threshold(x,0.1,20.0)
special.airy_ai:torch.special.airy_ai(x) special.bessel_j0:torch.special.bessel_j0(x)
special.bessel_j1:torch.special.bessel_j1(x) special.bessel_y0:torch.special.bessel_y0(u)
special.bessel_y1:torch.special.bessel_y1(u) special.entr:torch.special.entr(u) special.erfcx:torch.special.erfcx(x)
special.i0e:torch.special.i0e(x) special.i1:torch.special.i1(x) special.i1e:torch.special.i1e(x)
special.log_ndtr:torch.special.log_ndtr(x) special.modified_bessel_i0:torch.special.modified_bessel_i0(x)
special.modified_bessel_i1:torch.special.modified_bessel_i1(x)
special.modified_bessel_k0:torch.special.modified_bessel_k0(u)
special.modified_bessel_k1:torch.special.modified_bessel_k1(u) special.ndtr:torch.special.ndtr(x)
special.ndtri:torch.special.ndtri(u) special.spherical_bessel_j0:torch.special.spherical_bessel_j0(x)
add:x+y add_row:x+row add_column:x+column add_alpha:torch.add(x,y,alpha=2.0) sub:x-y rsub:torch.rsub(x,y) mul:x*y
mul_scalar:x*1.5 div:x/u div_floor:torch.div(x,u,rounding_mode='floor') div_trunc:torch.div(x,u,rounding_mode='trunc')
true_divide:torch.true_divide(x,u) floor_divide:x//u floor_divide_int:i//j remainder:x%u remainder_int:i%j
fmod:torch.fmod(x,u) fmod_int:torch.fmod(i,j) pow:torch.pow(u,y) pow_2:x**2 pow_3:x**3 pow_half:u**0.5
float_power:torch.float_power(u,y) __rpow__:2.0**x __rdiv__:2.0/u __rsub__:2.0-x __radd__:2.0+x __rmul__:2.0*x
__rmod__:2.0%u atan2:torch.atan2(x,y) hypot:torch.hypot(x,y) copysign:torch.copysign(x,y)
nextafter:torch.nextafter(x,y) heaviside:torch.heaviside(x,y) ldexp:torch.ldexp(x,i) logaddexp:torch.logaddexp(x,y)
logaddexp2:torch.logaddexp2(x,y) xlogy:torch.xlogy(x,u) special.xlog1py:torch.special.xlog1py(x,u)
special.zeta:torch.special.zeta(u+1.5,u+1) igamma:torch.igamma(u,u) igammac:torch.igammac(u,u) gcd:torch.gcd(i,j)
lcm:torch.lcm(i,j) maximum:torch.maximum(x,y) minimum:torch.minimum(x,y) fmax:torch.fmax(x,y) fmin:torch.fmin(x,y)
eq:x==y ne:x!=y lt:x<y le:x<=y gt:x>y ge:x>=y gt_scalar:x>0.5 isclose:torch.isclose(x,y)
logical_and:torch.logical_and(b,c) logical_or:torch.logical_or(b,c) logical_xor:torch.logical_xor(b,c)
bitwise_and:i&j bitwise_or:i|j bitwise_xor:i^j bitwise_and_bool:b&c bitwise_left_shift:i<<3 bitwise_right_shift:i>>3
__rand__:7&i __ror__:7|i __rxor__:7^i complex:torch.complex(x,y) polar:torch.polar(u,x) where:torch.where(b,x,y)
where_scalar:torch.where(b,x,0.0) masked_fill:x.masked_fill(b,0.0) lerp:torch.lerp(x,y,0.3)
lerp_tensor:torch.lerp(x,y,u) addcmul:torch.addcmul(x,y,u,value=0.5) addcdiv:torch.addcdiv(x,y,u,value=0.5)
special.chebyshev_polynomial_t:torch.special.chebyshev_polynomial_t(x,n3)
special.hermite_polynomial_h:torch.special.hermite_polynomial_h(x,n3)
special.laguerre_polynomial_l:torch.special.laguerre_polynomial_l(x,n3)
special.legendre_polynomial_p:torch.special.legendre_polynomial_p(x,n3)
add_int:i+j mul_int:i*j eq_int:i==j abs_int:torch.abs(i) sign_int:torch.sign(i) add_bf16:h+h mul_bf16:h*1.5
exp_bf16:torch.exp(h) gelu_bf16:F.gelu(h) cumsum_int:i.cumsum(1) mul_complex:z*z abs_complex:torch.abs(z)
exp_complex:torch.exp(z) conj:torch.conj(z).resolve_conj() imag:z.imag+0.0 view_as_real:torch.view_as_real(z)+0.0
"""

SHAPES = """
cat:torch.cat((x,y)) cat_columns:torch.cat((x,y),1) cat_three:torch.cat((x,y,u),1) stack:torch.stack((x,y))
stack_last:torch.stack((x,y),-1) hstack:torch.hstack((x,y)) vstack:torch.vstack((x,y)) dstack:torch.dstack((x,y))
column_stack:torch.column_stack((x,y)) block_diag:torch.block_diag(square,square) flip:torch.flip(x,(0,))
flip_columns:torch.flip(x,(1,)) flip_both:torch.flip(x,(0,1)) fliplr:torch.fliplr(x) flipud:torch.flipud(x)
roll:torch.roll(x,3,1) roll_rows:torch.roll(x,1,0) roll_flat:torch.roll(x,5) rot90:torch.rot90(x)
transpose:x.t().contiguous() permute:image.permute(0,2,3,1).contiguous() movedim:torch.movedim(image,1,3).contiguous()
permute_copy:torch.permute_copy(image,(0,2,3,1)) transpose_copy:torch.transpose_copy(x,0,1) t_copy:torch.t_copy(x)
expand_copy:torch.expand_copy(row,(rows,cols)) broadcast_to:torch.broadcast_to(column,(rows,cols)).contiguous()
expand:row.expand(rows,cols).contiguous() repeat:x.repeat(2,1) repeat_columns:x.repeat(1,2) tile:torch.tile(x,(2,2))
repeat_interleave:x.repeat_interleave(2,0) repeat_interleave_columns:x.repeat_interleave(2,1)
reshape:x.t().reshape(-1) view_copy:torch.view_copy(x,(-1,)) alias_copy:torch.alias_copy(x)
narrow_copy:torch.narrow_copy(x,1,1,half) slice:x[:,1:half].contiguous() slice_step:x[:,::2].contiguous()
select:x[:,1].contiguous() __getitem__:x[index] __getitem___pair:x[index,columns] __getitem___mask:x[b]
diagonal_copy:torch.diagonal_copy(x) diag:torch.diag(x) diag_embed:torch.diag_embed(x[:2]) diagflat:torch.diagflat(row)
tril:torch.tril(x) triu:torch.triu(x) unfold:x.unfold(1,2,1).contiguous() unfold_copy:torch.unfold_copy(x,1,2,2)
as_strided_copy:torch.as_strided_copy(x,(rows,half),(cols,2)) nn.functional.unfold:F.unfold(image,2)
nn.functional.fold:F.fold(folds,(side,side),2) nn.functional.pixel_shuffle:F.pixel_shuffle(image4,2)
nn.functional.pixel_unshuffle:F.pixel_unshuffle(image,2) nn.functional.channel_shuffle:F.channel_shuffle(image4,2)
nn.functional.pad_constant:F.pad(x,(1,1)) nn.functional.pad_rows:F.pad(x,(0,0,1,1))
nn.functional.pad_reflect:F.pad(image,(1,1,1,1),'reflect')
nn.functional.pad_replicate:F.pad(image,(1,1,1,1),'replicate')
nn.functional.pad_circular:F.pad(image,(1,1,1,1),'circular') constant_pad_nd:torch.constant_pad_nd(image,(1,1,1,1))
unbind_copy:torch.unbind_copy(x[:4]) split_with_sizes_copy:torch.split_with_sizes_copy(x,(half,half),1)
squeeze_copy:torch.squeeze_copy(x) unsqueeze_copy:torch.unsqueeze_copy(x,0) atleast_2d:torch.atleast_2d(x)+0.0
meshgrid:torch.meshgrid(row,row[:2],indexing='ij')[0]+0.0 cartesian_prod:torch.cartesian_prod(row,row[:4])
zeros:torch.zeros(rows,cols) ones:torch.ones(rows,cols) full:torch.full((rows,cols),2.5) empty_like:torch.empty_like(x)
zeros_like:torch.zeros_like(x) ones_like:torch.ones_like(x) full_like:torch.full_like(x,1.5) new_zeros:x.new_zeros(rows)
arange:torch.arange(rows*cols) linspace:torch.linspace(0,1,rows*cols) logspace:torch.logspace(0,1,rows*cols)
eye:torch.eye(rows) tril_indices:torch.tril_indices(rows,4) zero_:x.clone().zero_()
rand_like:torch.rand_like(x) randn_like:torch.randn_like(x) randint_like:torch.randint_like(x,10)
bernoulli:torch.bernoulli(u) normal:torch.normal(x,u) nn.functional.dropout:F.dropout(x)
nn.functional.dropout2d:F.dropout2d(image) nn.functional.alpha_dropout:F.alpha_dropout(x,training=True)
signal.windows.hann:torch.signal.windows.hann(rows) signal.windows.kaiser:torch.signal.windows.kaiser(rows)
trace:torch.trace(x) outer:torch.outer(column[:,0],row) kron:torch.kron(square[:8,:8],x[:8])
nn.functional.one_hot:F.one_hot(index,rows) unravel_index:torch.unravel_index(index,(rows,1))[0]
"""

INDEXING = """
gather:torch.gather(x,1,gathered) gather_rows:torch.gather(x,0,gathered_rows) index_select:torch.index_select(x,0,index)
index_select_columns:torch.index_select(x,1,columns) take:torch.take(x,flat)
take_along_dim:torch.take_along_dim(x,gathered,1) index_add:torch.index_add(x,0,index,y)
index_copy:torch.index_copy(x,0,index,y) index_fill:torch.index_fill(x,0,index,1.5)
index_reduce_amax:torch.index_reduce(x,0,index,y,'amax') index_put:x.index_put((index,columns),row1)
index_put_accumulate:x.index_put((index,columns),row1,accumulate=True) scatter:torch.scatter(x,1,gathered,y)
scatter_rows:torch.scatter(x,0,gathered_rows,y) scatter_add:torch.scatter_add(x,1,gathered,y)
scatter_add_rows:torch.scatter_add(x,0,gathered_rows,y) scatter_add_few:torch.scatter_add(x[:4],0,few,y)
scatter_reduce_sum:torch.scatter_reduce(x,1,gathered,y,'sum')
scatter_reduce_amax:torch.scatter_reduce(x,1,gathered,y,'amax')
scatter_reduce_mean:torch.scatter_reduce(x,1,gathered,y,'mean') select_scatter:torch.select_scatter(x,column[:,0],1,1)
slice_scatter:torch.slice_scatter(x,y[:,:half],1,0,half) diagonal_scatter:torch.diagonal_scatter(x,diagonal)
as_strided_scatter:torch.as_strided_scatter(x,row,(cols,),(1,)) masked_scatter:x.masked_scatter(b,y)
masked_select:torch.masked_select(x,b) nonzero:torch.nonzero(b) argwhere:torch.argwhere(b)
nn.functional.embedding:F.embedding(index,x) nn.functional.embedding_bag:F.embedding_bag(index,x,offsets)
put:torch.put(x,flat,y) bucketize:torch.bucketize(x,sorted) searchsorted:torch.searchsorted(sorted,x)
bincount:torch.bincount(flat) histc:torch.histc(x,10) unique:torch.unique(i)
unique_consecutive:torch.unique_consecutive(i)
sort:torch.sort(x)[0] sort_rows:torch.sort(x,0)[0] argsort:torch.argsort(x) msort:torch.msort(x)
topk:torch.topk(x,2)[0] kthvalue:torch.kthvalue(x,2)[0] median:torch.median(x,1)[0] mode:torch.mode(i,1)[0]
nanmedian:torch.nanmedian(x,1)[0] quantile:torch.quantile(x[:,:8],0.4,1) multinomial:torch.multinomial(u[:4],2)
"""

REDUCTIONS = """
sum sum_rows:x.sum(0) sum_columns:x.sum(1) sum_image:image.sum((2,3)) sum_int:i.sum() sum_bf16:h.sum(1) mean
mean_rows:x.mean(0) mean_columns:x.mean(1) amax:x.amax(1) amax_rows:x.amax(0) amin:x.amin(1) aminmax:torch.aminmax(x)
max:x.max() max_dim:x.max(1)[0] max_dim_rows:x.max(0)[1] min:x.min() min_dim:x.min(1)[0] argmax:x.argmax(1)
argmax_rows:x.argmax(0) argmax_all:x.argmax() argmin:x.argmin(1) prod:u.prod() prod_rows:u.prod(0)
prod_columns:u.prod(1) all:b.all() all_rows:b.all(0) any:b.any() any_columns:b.any(1)
count_nonzero:torch.count_nonzero(x) count_nonzero_columns:torch.count_nonzero(x,1) nansum nanmean var:x.var()
var_rows:x.var(0) var_columns:x.var(1) std:x.std() std_columns:x.std(1) var_mean:torch.var_mean(x,1)
std_mean:torch.std_mean(x,0) norm:torch.norm(x) norm_columns:torch.norm(x,dim=1)
linalg.vector_norm:torch.linalg.vector_norm(x) linalg.vector_norm_rows:torch.linalg.vector_norm(x,dim=0)
linalg.vector_norm_inf:torch.linalg.vector_norm(x,float('inf'),1) logsumexp:torch.logsumexp(x,1)
logsumexp_rows:torch.logsumexp(x,0) softmax:torch.softmax(x,1) softmax_rows:torch.softmax(x,0)
softmax_bf16:torch.softmax(h,1) log_softmax:torch.log_softmax(x,1) log_softmax_rows:torch.log_softmax(x,0)
nn.functional.softmin:F.softmin(x,1) cumsum:x.cumsum(1) cumsum_rows:x.cumsum(0) cumprod:u.cumprod(1)
cummax:torch.cummax(x,1)[0] cummin:torch.cummin(x,0)[0] logcumsumexp:torch.logcumsumexp(x,1) diff:torch.diff(x)
diff_rows:torch.diff(x,dim=0) trapezoid:torch.trapezoid(x) cumulative_trapezoid:torch.cumulative_trapezoid(x)
gradient:torch.gradient(x,dim=1)[0] renorm:torch.renorm(x,2,0,1.0) equal:torch.equal(x,y) allclose:torch.allclose(x,x)
sum_to_size:x.sum_to_size(1,cols) cov:torch.cov(x[:4]) corrcoef:torch.corrcoef(x[:4]) dist:torch.dist(x,y)
masked.sum:torch.masked.sum(x,1,mask=b) masked.mean:torch.masked.mean(x,1,mask=b)
masked.amax:torch.masked.amax(x,1,mask=b) masked.softmax:torch.masked.softmax(x,1,mask=b)
masked.logsumexp:torch.masked.logsumexp(x,1,mask=b) masked.var:torch.masked.var(x,1,mask=b)
"""

NETWORK = """
nn.functional.layer_norm:F.layer_norm(x,(cols,)) nn.functional.rms_norm:F.rms_norm(x,(cols,))
nn.functional.batch_norm:F.batch_norm(image,image[0,:,0,0],image[0,:,0,0].abs()+1)
nn.functional.batch_norm_training:F.batch_norm(image,None,None,training=True)
nn.functional.group_norm:F.group_norm(image4,2) nn.functional.instance_norm:F.instance_norm(image)
nn.functional.local_response_norm:F.local_response_norm(image4,2) nn.functional.normalize:F.normalize(x)
nn.functional.avg_pool1d:F.avg_pool1d(sequence,2) nn.functional.avg_pool2d:F.avg_pool2d(image,2)
nn.functional.avg_pool3d:F.avg_pool3d(volume,2) nn.functional.max_pool1d:F.max_pool1d(sequence,2)
nn.functional.max_pool2d:F.max_pool2d(image,2) nn.functional.max_pool2d_overlap:F.max_pool2d(image,2,1)
nn.functional.max_pool3d:F.max_pool3d(volume,2)
nn.functional.max_pool2d_indices:F.max_pool2d(image,2,return_indices=True)[1]
nn.functional.adaptive_avg_pool1d:F.adaptive_avg_pool1d(sequence,2)
nn.functional.adaptive_avg_pool2d:F.adaptive_avg_pool2d(image,1)
nn.functional.adaptive_max_pool2d:F.adaptive_max_pool2d(image,2)
nn.functional.interpolate_nearest:F.interpolate(image,scale_factor=2.0)
nn.functional.interpolate_nearest-exact:F.interpolate(image,scale_factor=2.0,mode='nearest-exact')
nn.functional.interpolate_bilinear:F.interpolate(image,scale_factor=2.0,mode='bilinear')
nn.functional.interpolate_bilinear_down:F.interpolate(image,scale_factor=0.5,mode='bilinear')
nn.functional.interpolate_bicubic:F.interpolate(image,scale_factor=2.0,mode='bicubic')
nn.functional.interpolate_area:F.interpolate(image,scale_factor=0.5,mode='area')
nn.functional.interpolate_linear:F.interpolate(sequence,scale_factor=2.0,mode='linear')
nn.functional.interpolate_trilinear:F.interpolate(volume,scale_factor=2.0,mode='trilinear')
nn.functional.grid_sample:F.grid_sample(image,grid,align_corners=False)
nn.functional.grid_sample_nearest:F.grid_sample(image,grid,mode='nearest',align_corners=False)
affine_grid:F.affine_grid(theta,image.shape,align_corners=False)
nn.functional.conv1d:F.conv1d(sequence,kernel1) nn.functional.conv2d:F.conv2d(image,kernel2)
nn.functional.conv_transpose2d:F.conv_transpose2d(image,kernel2) nn.functional.conv3d:F.conv3d(volume,kernel3)
nn.functional.linear:F.linear(x,weight) nn.functional.linear_bias:F.linear(x,weight,bias)
nn.functional.linear_bf16:F.linear(h,weight.bfloat16()) nn.functional.bilinear:F.bilinear(x[:2],x[:2],bilinear)
mm:torch.mm(x,weight.t()) mv:torch.mv(x,row) bmm:torch.bmm(batch,batch) matmul:torch.matmul(batch,batch)
baddbmm:torch.baddbmm(batch,batch,batch) addmm:torch.addmm(bias,x,weight.t()) addmv:torch.addmv(column[:,0],x,row)
addr:torch.addr(x,column[:,0],row) dot:torch.dot(flat_x,flat_y) vdot:torch.vdot(flat_x,flat_y)
inner:torch.inner(row,row)
einsum:torch.einsum('ij,kj->ik',x,weight) einsum_batch:torch.einsum('bij,bjk->bik',batch,batch)
tensordot:torch.tensordot(x,weight,([1],[1])) chain_matmul:torch.linalg.multi_dot((x,weight.t(),weight))
nn.functional.scaled_dot_product_attention:F.scaled_dot_product_attention(heads,heads,heads)
cdist:torch.cdist(points,points) nn.functional.pdist:F.pdist(points) cross:torch.linalg.cross(threes,threes)
nn.functional.cosine_similarity:F.cosine_similarity(x,y) nn.functional.pairwise_distance:F.pairwise_distance(x,y)
nn.functional.mse_loss:F.mse_loss(x,y) nn.functional.l1_loss:F.l1_loss(x,y)
nn.functional.smooth_l1_loss:F.smooth_l1_loss(x,y) nn.functional.huber_loss:F.huber_loss(x,y)
nn.functional.cross_entropy:F.cross_entropy(x,classes) nn.functional.nll_loss:F.nll_loss(x,classes)
nn.functional.binary_cross_entropy:F.binary_cross_entropy(u,u)
nn.functional.binary_cross_entropy_with_logits:F.binary_cross_entropy_with_logits(x,u)
nn.functional.kl_div:F.kl_div(x,u) nn.functional.poisson_nll_loss:F.poisson_nll_loss(x,u)
nn.functional.gaussian_nll_loss:F.gaussian_nll_loss(x,y,u) nn.functional.soft_margin_loss:F.soft_margin_loss(x,signs)
nn.functional.hinge_embedding_loss:F.hinge_embedding_loss(x,signs)
nn.functional.margin_ranking_loss:F.margin_ranking_loss(x,y,signs)
nn.functional.cosine_embedding_loss:F.cosine_embedding_loss(x,y,signs[:,0])
nn.functional.triplet_margin_loss:F.triplet_margin_loss(x,y,u)
nn.functional.multi_margin_loss:F.multi_margin_loss(x,classes)
nn.functional.multilabel_soft_margin_loss:F.multilabel_soft_margin_loss(x,u)
nn.functional.multilabel_margin_loss:F.multilabel_margin_loss(x[:4],gathered[:4])
nn.functional.ctc_loss:F.ctc_loss(frames,labels,lengths,label_lengths)
fft.fft:torch.fft.fft(x) fft.ifft:torch.fft.ifft(z) fft.rfft:torch.fft.rfft(x) fft.irfft:torch.fft.irfft(z)
fft.fft2:torch.fft.fft2(x) fft.fftshift:torch.fft.fftshift(x) fft.ifftshift:torch.fft.ifftshift(x)
fft.hfft:torch.fft.hfft(z) stft:torch.stft(flat_x[:4096],4,window=window,return_complex=True)
linalg.inv:torch.linalg.inv(spd) linalg.solve:torch.linalg.solve(spd,batch) linalg.cholesky:torch.linalg.cholesky(spd)
linalg.det:torch.linalg.det(spd) linalg.slogdet:torch.linalg.slogdet(spd)[1] linalg.qr:torch.linalg.qr(batch)[0]
linalg.eigvalsh:torch.linalg.eigvalsh(spd[:16]) linalg.svdvals:torch.linalg.svdvals(batch[:16])
linalg.lu_factor:torch.linalg.lu_factor(spd)[0] linalg.pinv:torch.linalg.pinv(batch[:16])
linalg.matrix_norm:torch.linalg.matrix_norm(batch) linalg.matrix_power:torch.linalg.matrix_power(batch,3)
linalg.solve_triangular:torch.linalg.solve_triangular(spd,batch,upper=True) matrix_exp:torch.matrix_exp(batch[:16])
linalg.vecdot:torch.linalg.vecdot(x,y) linalg.vander:torch.linalg.vander(row[:32])
cholesky_inverse:torch.cholesky_inverse(spd)
cholesky_solve:torch.cholesky_solve(batch,spd) linalg.lstsq:torch.linalg.lstsq(spd[:16],batch[:16])[0]
"""


@dataclass(frozen=True)
class Row:
    name: str
    expression: str
    names: tuple[str, ...]  # of the inputs, the function's parameters

    def function(self) -> Callable[..., Any]:
        """A Python function as a user would write it, on `names`."""
        code = f"lambda {', '.join(self.names)}: {self.expression}"
        return eval(compile(code, f"<{self.name}>", "eval"), {"torch": torch, "F": F})  # type: ignore[no-any-return]


def _row(text: str) -> Row:
    name, _, expression = text.partition(":")
    expression = expression or f"torch.{name}(x)"
    names = {n.id for n in ast.walk(ast.parse(expression)) if isinstance(n, ast.Name)}
    return Row(name, expression, tuple(sorted(names - {"torch", "F", "float"})))


ROWS = [_row(text) for family in (POINTWISE, SHAPES, INDEXING, REDUCTIONS, NETWORK) for text in family.split()]


def inputs_of(row: Row, size: str, *, gradients: bool = False) -> list[Any]:
    """The arguments of the row's function: mostly float32 tensors, and ints for sizes. The values do not change.

    gradients: leaves that record gradients, where the dtype has any.
    """
    small = size == "small"
    rows, cols = (2, 4) if small else (1024, 2048)
    side, channels, length = (2, 2, 4) if small else (256, 8, 4096)
    random = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=random) * 0.8 + 0.1

    def below(limit: int, *shape: int, least: int = 0) -> torch.Tensor:
        return torch.randint(least, limit, shape, generator=random)

    def positive_definite() -> torch.Tensor:
        n, k = (2, 2) if small else (512, 64)
        a = normal(n, k, k)
        return a @ a.mT + k * torch.eye(k)

    n = SIZES[size]
    batches = 1 if small else 4
    make: dict[str, Callable[[], Any]] = {
        "x": lambda: normal(rows, cols),
        "y": lambda: normal(rows, cols),
        "u": lambda: uniform(rows, cols),
        "h": lambda: normal(rows, cols).bfloat16(),
        "z": lambda: torch.complex(normal(rows, cols), normal(rows, cols)),
        "b": lambda: below(2, rows, cols).bool(),
        "c": lambda: below(2, rows, cols).bool(),
        "i": lambda: below(100, rows, cols),
        "j": lambda: below(100, rows, cols, least=1),
        "one": lambda: torch.full((1,), 0.25),
        "n3": lambda: torch.full((1,), 3.0),
        "row": lambda: normal(cols),
        "row1": lambda: normal(rows),
        "column": lambda: normal(rows, 1),
        "rows": lambda: rows,
        "cols": lambda: cols,
        "half": lambda: cols // 2,
        "side": lambda: side,
        "square": lambda: normal(*((2, 2) if small else (724, 724))),
        "index": lambda: torch.randperm(rows, generator=random),
        "columns": lambda: torch.randperm(cols, generator=random)[:rows],
        "classes": lambda: below(cols, rows),
        "signs": lambda: below(2, rows, cols) * 2.0 - 1.0,
        "gathered": lambda: below(cols, rows, cols),
        "gathered_rows": lambda: below(rows, rows, cols),
        "few": lambda: below(2, rows, cols),
        "flat": lambda: (
            torch.randperm(n, generator=random).view(rows, cols) if row.name != "bincount" else below(64, n)
        ),
        "flat_x": lambda: normal(n),
        "flat_y": lambda: normal(n),
        "offsets": lambda: torch.arange(0, rows, 2),
        "sorted": lambda: normal(64).sort()[0],
        "diagonal": lambda: normal(min(rows, cols)),
        "image": lambda: normal(batches, channels, side, side),
        "image4": lambda: normal(*((1, 4, 2, 2) if small else (1, 32, 256, 256))),
        "sequence": lambda: normal(*((1, 2, 4) if small else (8, 64, length))),
        "volume": lambda: normal(*((1, 1, 2, 2, 2) if small else (1, 8, 64, 64, 64))),
        "folds": lambda: normal(batches, channels * 4, (side - 1) ** 2),
        "grid": lambda: uniform(batches, side, side, 2) * 2 - 1,
        "theta": lambda: normal(batches, 2, 3),
        "kernel1": lambda: normal(*((2, 2, 2) if small else (64, 64, 3))),
        "kernel2": lambda: normal(channels, channels, *((2, 2) if small else (3, 3))),
        "kernel3": lambda: normal(*((1, 1, 2, 2, 2) if small else (8, 8, 3, 3, 3))),
        "weight": lambda: normal(4 if small else 64, cols),
        "bias": lambda: normal(4 if small else 64),
        "bilinear": lambda: normal(2, cols, cols) if small else normal(1, cols, cols),
        "batch": lambda: normal(*((2, 2, 2) if small else (512, 64, 64))),
        "spd": positive_definite,
        "heads": lambda: normal(*((1, 1, 2, 4) if small else (4, 8, 1024, 64))),
        "points": lambda: normal(*((4, 2) if small else (1024, 32))),
        "threes": lambda: normal(*((3, 3) if small else (n // 3, 3))),
        "frames": lambda: normal(*((4, 1, 2) if small else (256, 32, 256))).log_softmax(-1),
        "labels": lambda: below(*((2, 1, 2) if small else (256, 32, 32)), least=1),
        "lengths": lambda: torch.full((1 if small else 32,), 4 if small else 256),
        "label_lengths": lambda: torch.full((1 if small else 32,), 2 if small else 32),
        "window": lambda: torch.hann_window(4),
    }
    made = [make[name]() for name in row.names]
    if gradients:
        made = [
            v.requires_grad_() if isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex()) else v
            for v in made
        ]
    return made
