"""Attributes, creation, conversion and iteration of tensors."""

from __future__ import annotations

import math
import operator

import numpy as np
import torch

from tests.capture.case import case, t


@case(lambda: (t(2, 3, 4),), lambda: (t(4, 3).T,), lambda: (t(),))
def attributes(x):
    facts = x.shape, x.size(), x.dtype, x.device, x.ndim, x.dim(), x.numel(), x.stride(), x.layout, x.is_contiguous()
    more = x.requires_grad, x.is_leaf, x.grad, x.grad_fn, x.is_floating_point(), x.is_complex(), x.element_size()
    return facts, more, x.storage_offset(), x.itemsize, x.nbytes, x.is_cuda, x.is_sparse, x.data


@case(lambda: (t(2, 3),), lambda: (t(5, 3),))
def transposed(x):
    return x.T, x.mT, x.H, x.mH, x.t(), x.transpose(0, -1), x.swapaxes(0, 1), x.permute(1, 0), x.movedim(0, 1)


@case(lambda: (t(2, 3),), lambda: (t(5, 4),))
def arithmetic_of_sizes(x):
    b, c = x.shape
    rows = x.size(0) * 2 + c // 2 - b % 2
    size = x.shape + (1,)
    more = torch.Size([b, c]) + x.shape[1:], x.shape[::-1], x.shape[-1], x.shape.numel(), len(x.shape), list(x.shape)
    return rows, size, more, x.view(*size), x.reshape(c, -1), math.prod(x.shape), max(x.shape), sum(x.shape)


@case(lambda: (t(4, 3),), lambda: (t(6, 3),), lambda: (t(7, 3),))
def sizes_in_branches(x):
    if x.shape[0] % 2:
        return x.sum()
    if x.shape[0] > 5 and x.size(-1) == 3:
        return x[: x.shape[0] // 2]
    return x.view(x.shape[0] // 2, 2, -1).mean(1)


@case(lambda: (t(3),), lambda: (t(8),))
def size_as_float(x):
    return x / math.sqrt(x.shape[-1]), x.shape[0] ** 0.5, float(x.shape[0]), x.shape[0] / 2, int(x.shape[0] * 1.5)


@case(lambda: (t(3),), lambda: (t(5),))
def size_in_strings(x):
    return f"{x.shape[0]:>4}", str(x.shape), repr(x.dtype), f"{x.device}", "%d" % x.shape[0], f"{x.shape}"


@case(lambda: (t(3),), lambda: (t(5),), lambda: (t(3, 2).T,), lambda: (t(3).long(),))
def properties_without_an_operator(x):
    return x.shape[0], x.numel(), x.stride(), x.dtype, x.is_contiguous(), len(x)


@case(lambda: (t(3),))
def dict_of_a_tensor(x):
    x.note = 5
    return x.__dict__, (x * 2).__dict__, hasattr(x, "note")


@case(lambda: (t(2, 3),), lambda: (t(4, 5),))
def created(x):
    n = x.shape[0]
    return (
        torch.zeros(n, 2),
        torch.ones((n,), dtype=torch.int64),
        torch.full((2, n), 3.5),
        torch.arange(n),
        torch.arange(1, 10, 2.5),
        torch.linspace(0, 1, n),
        torch.eye(n),
        torch.empty(n).fill_(2),
        torch.zeros_like(x, dtype=torch.float64),
        torch.ones_like(x).T,
        torch.full_like(x, 7),
        x.new_zeros(n),
        x.new_ones(2, n),
        x.new_full((1,), 4.0),
        x.new_tensor([1, 2]),
        x.new_empty(0),
        torch.tril(torch.ones(n, n)),
    )


def numbers(first):
    return [torch.tensor(first), torch.tensor(first * 2 + 1)]


@case(lambda: (numbers(1),), lambda: (numbers(4),), lambda: (tuple(numbers(5)),))
def tensor_of_tensors_in_a_list(values):
    return torch.tensor(values) * 2


@case(lambda: (numbers(1),), lambda: (numbers(4),))
def tensors_of_tensors_in_lists(values):
    return (
        torch.as_tensor([values, values]),
        torch.LongTensor(values),
        torch.Tensor(values),
        values[0].new_tensor(values),
        torch.asarray(values),
        torch.stack(values),
    )


@case(lambda: (t(2, 3), 4), lambda: (t(2, 3), 5))
def tensor_of_values(x, n):
    values = [1, 2.5, n]
    return (
        torch.tensor(values),
        torch.tensor([[1, n], [3, 4]]),
        torch.tensor(n),
        torch.tensor(n, dtype=torch.float64),
        torch.tensor(True),
        torch.tensor([]),
        torch.tensor(2 + 1j),
        torch.as_tensor(n),
        torch.as_tensor(x),
        torch.tensor((1, 2)) * n,
        torch.tensor(x.shape),
        torch.tensor([x.shape[0], n]),
        torch.scalar_tensor(3.0),
    )


@case(lambda: (t(3),))
def tensor_of_tensors(x):
    return torch.tensor([x[0], x[1]]), torch.tensor([x.sum().item(), 2.0]), torch.as_tensor([1, 2]), torch.stack([*x])


@case(lambda: (t(2, 3),))
def conversions(x):
    whole = x.to(torch.int64), x.int(), x.long(), x.bool(), x.half(), x.bfloat16(), x.double(), x.type(torch.int32)
    same = x.to(x.device), x.to(x), x.float(), x.cpu(), x.to("cpu", torch.float64), x.type_as(x.int())
    return (
        whole,
        same,
        x.float() is x,
        x.to(torch.float32) is x,
        x.contiguous() is x,
        x.to(torch.float32, copy=True) is x,
    )


@case(lambda: (t(2, 3),))
def conversion_to_names(x):
    return (
        x.type(),
        x.to(dtype=torch.float16).type(),
        torch.finfo(x.dtype).max,
        torch.iinfo(torch.int8).min,
        x.dtype.itemsize,
    )


@case(lambda: (t(2, 3),), lambda: (t(2, 3, dtype=torch.int64),))
def promotion(x):
    return (
        x + 1,
        x * 2.5,
        x / 2,
        x // 2,
        x % 3,
        x**2,
        2**x,
        -x,
        +x,
        abs(x),
        1 - x,
        3 / (x + 0.5),
        x > 1,
        x == x,
    )


@case(lambda: (t(4, dtype=torch.int64), 3))
def integer_operators(x, n):
    return x & n, x | n, x ^ n, ~x, x << 1, x >> 1, n - x, operator.floordiv(x, n), x.bool() & (x > 0)


@case(lambda: (t(2, 3),), lambda: (t(4, 3),))
def iterated(x):
    total = 0
    for i, line in enumerate(x):
        total = total + line * i
    a, *rest = x
    return total, a, rest, len(x), [line.sum() for line in x], list(zip(x, x.flip(0), strict=True)), tuple(reversed(x))


@case(lambda: (t(3, 2),))
def unbound(x):
    a, b, c = x.unbind(0)
    d, e = x.split([1, 2])
    f, g = x.chunk(2, dim=1)
    return a + b + c, d, e, f @ g.T


@case(lambda: (t(),), lambda: (t(3),))
def iterating_a_scalar(x):
    return [each for each in x]


@case(lambda: (t(3),), lambda: ([1, 2],), lambda: (None,), lambda: (torch.nn.Parameter(t(2)),))
def isinstance_checks(x):
    kinds = isinstance(x, torch.Tensor), torch.is_tensor(x), isinstance(x, torch.nn.Parameter), isinstance(x, list)
    float_kind = isinstance(x, torch.FloatTensor), type(x) is torch.Tensor, type(x).__name__
    return kinds, float_kind, hasattr(x, "shape"), callable(getattr(x, "sum", None)), torch.overrides.is_tensor_like(x)


@case(lambda: (t(3),), lambda: (t(3) * -1,))
def values_read(x):
    total = x.sum().item()
    return x * total, float(x[0]), int(x[1]), bool(x[2] > 0), x.tolist(), x[0].item() + 1


@case(lambda: (t(3),))
def printed(x):
    print(x)
    y = x * 2
    print("twice:", y, y.shape, f"{y[0]:.2f}", f"{y}")
    return str(y), repr(x[0]), format(y[0], ".3f")


@case(lambda: (t(3),), lambda: (-t(3),))
def branches_on_values(x):
    if x.sum() > 0:
        y = x * 2
    elif (x == x).all():
        y = x * 3
    else:
        y = x
    while y.abs().max() > 1:
        y = y / 2
    assert y.isfinite().all()
    return y if y[0] > 0 or y[1] > 0 else -y


@case(lambda: (t(3),))
def truth_of_many_values(x):
    return x + 1 if x > 0 else x


@case(lambda: (t(2, 3),))
def to_numpy_and_back(x):
    a = x.numpy()
    y = torch.from_numpy(a * 2) + x
    return (
        y,
        np.asarray(y).sum(),
        torch.as_tensor(np.arange(3)) + 1,
        np.float32(2.0) * x,
        x * np.float64(0.5),
        x + np.arange(3),
    )


@case(lambda: (t(2, 3),))
def numpy_functions(x):
    return np.sin(x), np.add(x, 1), x.__array__().shape, x * np.int64(2)


@case(lambda: (t(4),), lambda: (t(6),))
def reductions(x):
    value, index = x.max(dim=0)
    top = x.topk(2)
    return (
        value,
        index,
        top,
        top.values,
        x.sort(),
        x.min(0).indices,
        x.aminmax(),
        x.std(),
        x.argmax(),
        x.median(),
        sum(x),
    )


@case(lambda: (t(5),), lambda: (torch.zeros(5),))
def data_dependent_shapes(x):
    return x[x > 0], x.nonzero(), torch.where(x > 0), x.unique(), torch.masked_select(x, x < 0), (x > 0).sum().item()


@case(lambda: (t(3, 3),), lambda: (t(2, 2),))
def comparisons(x):
    return torch.equal(x, x.T), torch.allclose(x, x + 1e-9), x.equal(x), (x == x.T).all().item(), x.eq(1).any()


@case(lambda: (t(3),))
def operator_module(x):
    a = operator.add(x, 1), operator.mul(x, x), operator.neg(x), operator.getitem(x, 1), operator.matmul(x, x)
    b = operator.attrgetter("shape", "dtype")(x), operator.methodcaller("clamp", min=0)(x), operator.itemgetter(0, 2)(x)
    return a, b


@case(lambda: (t(3),))
def named_functions(x):
    functions = ["sin", "cos", "exp"]
    out = x
    for name in functions:
        out = getattr(torch, name)(out)
        out = getattr(out, name + "_")()
    return out, [torch.nn.functional.__dict__[name](x) for name in ("relu", "gelu", "silu")]


@case(lambda: (t(2, 3),), lambda: (t(2, 3), 1))
def keywords_and_out(x, dim=None):
    out = torch.empty(0)
    torch.add(x, x, alpha=2, out=out)
    return out, torch.sum(x, dim=dim, keepdim=True) if dim is not None else x.sum(), torch.cat(tensors=[x, x], dim=-1)


@case(lambda: (t(3),))
def wrong_calls(x):
    errors = []
    for call in (
        lambda: x + "a",
        lambda: x.view(2),
        lambda: x @ torch.ones(4),
        lambda: torch.add(x),
        lambda: x.no_such,
        lambda: torch.nn.functional.relu(1),
        lambda: x[5],
        lambda: torch.cat([]),
        lambda: x.sum(dim=3),
        lambda: torch.zeros(-1),
    ):
        try:
            errors.append(call())
        except Exception as error:
            errors.append((type(error), str(error).splitlines()[0]))
    return errors


@case(lambda: (t(2, 3),))
def raised_by_torch(x):
    y = x + 1
    return y @ y


@case(lambda: (t(3),))
def hashed_and_compared_by_identity(x):
    y = x * 2
    table = {x: "x", y: "y"}
    return table[x], table[y], x in table, y in {x}, any(each is x for each in [y, x]), hash(x) == id(x)


@case(lambda: (t(3),))
def membership_compares_values(x):
    return x in [x], 1.0 in torch.ones(3), [x].index(x), [x, x].count(x)


@case(lambda: (t(2, 3, 4),))
def chained_views(x):
    y = x.view(6, 4).unsqueeze(1).expand(6, 2, 4).transpose(0, 2)[1:3, ..., ::2].flatten(1)
    return (
        y,
        y.squeeze(),
        x.unflatten(2, (2, 2)),
        x.narrow(0, 1, 1),
        x.select(1, 0),
        x.diagonal(dim1=1, dim2=2),
        x.unfold(2, 2, 1),
    )


@case(lambda: (torch.complex(t(3), t(3, seed=1)),))
def complex_numbers(x):
    return x.real, x.imag, x.conj(), x.abs(), x.angle(), torch.view_as_real(x), x * 1j, x.conj().resolve_conj()


@case(lambda: (t(3), [t(3, seed=1), t(3, seed=2)]), lambda: (t(3), [t(3)]))
def star_arguments(x, xs):
    return (
        torch.stack([x, *xs]),
        torch.cat((*xs, x)),
        torch.einsum("i,i->", x, xs[0]),
        torch.broadcast_tensors(x, *xs),
        sum(xs, x),
    )


@case(lambda: (t(3),))
def attribute_set_on_a_tensor(x):
    y = x * 2
    y.note = "kept"
    x.count = getattr(x, "count", 0) + 1
    return y, y.note, x.count, hasattr(y + 0, "note")


@case(lambda: (t(2, 3),))
def storage_and_pointers(x):
    y = x * 2
    return (
        x.data_ptr() == x.view(-1).data_ptr(),
        y.data_ptr() != x.data_ptr(),
        y.untyped_storage().size(),
        x.is_set_to(x),
    )


@case(lambda: (t(3),))
def parameter_made_inside(x):
    p = torch.nn.Parameter(x.clone())
    b = torch.nn.Buffer(torch.ones(3))
    return p * 2, p.requires_grad, type(p), type(b), isinstance(b, torch.nn.Buffer)


@case(
    lambda: (t(2, 3), torch.FloatTensor),
    lambda: (t(2, 3).double(), torch.DoubleTensor),
    lambda: (t(2), torch.IntTensor),
)
def classes_of_dtypes(x, kind):
    y = x + 1
    return (
        isinstance(x, kind),
        isinstance(y, kind),
        isinstance(y, (kind, torch.LongTensor, int)),
        isinstance(y.long(), (list, torch.LongTensor)),
        isinstance(y, torch.Tensor),
        y.type(),
        x.type(kind),
    )


@case(lambda: (t(2, 3),), lambda: (t(4, 3).double(),))
def legacy_constructors(x):
    n = x.shape[0]
    return (
        x.new(2, 3).fill_(1) + x.new(x.shape[1]).zero_(),
        x.new(x.size()).zero_() + x,
        x.new([1, 2.5]),
        x.new(((1, 2), (3, 4))),
        x.new().shape,
        torch.Tensor(n, 2).fill_(3),
        torch.Tensor([1, 2, n]),
        torch.Tensor(),
        torch.IntTensor(2).fill_(7) * x.sum(),
        torch.DoubleTensor([[1, 2], [3, 4]]),
        torch.BoolTensor([True, False]),
    )


@case(lambda: (t(2, 3),), lambda: (t(2, 3).half(),))
def new_tensors(x):
    return (
        x.new_tensor([1, 2.5]) * 2,
        x.new_tensor(3),
        x.new_tensor([[1], [2]], dtype=torch.int16),
        x.new_tensor([x.shape[0]], device="cpu", requires_grad=False),
        x.new_tensor([1.5], dtype=None),
    )


@case(lambda: (torch.arange(4),), lambda: (torch.arange(5),))
def integers_of_more_than_62_bits(x):
    big = (1 << 63) - 1
    return (
        x & big,
        x + big // 2,
        x.clone().fill_(big),
        torch.full((2,), -(1 << 63)),
        torch.where(x > 2, big, 0),
        x * big,
    )


@case(lambda: (t(2, 3) > 0.5,), lambda: (t(3, 3) > 0.5,))
def truth_of_no_dimensions(x):
    return torch.any(x, dim=()), torch.all(x, dim=()), torch.all(x, dim=(), keepdim=True), torch.all(x), x.sum(())


@case(lambda: (t(3),), lambda: (t(4),))
def bounds_that_are_missing(x):
    return x.clamp(min=0), x.clamp()


@case(lambda: (t(3),), lambda: (t(4),))
def resized_into_a_format(x):
    y = torch.empty(0).resize_((1, 2, 2, 3), memory_format=torch.channels_last)
    return x * 2, y.stride(), y.is_contiguous(memory_format=torch.channels_last)


@case(lambda: (t(3), torch.empty(3, dtype=torch.float64)), lambda: (t(4), torch.empty(4)))
def results_into_another_type(x, out):
    added = torch.add(x, 1, out=out).clone()
    return added, torch.neg(x, out=out)


def _error(f, *args):
    try:
        f(*args)
    except (RuntimeError, IndexError) as e:
        return type(e), str(e)
    return None


@case(lambda: (t(4, 2), torch.tensor([[9]])), lambda: (t(5, 2), torch.tensor([[1]])))
def errors_of_what_nobody_reads(x, i):
    return (
        x * 2,
        _error(torch.gather, x, 0, i),
        _error(lambda: x[i]),
        _error(torch.nn.functional.embedding, i, x),
        _error(torch.index_select, x, 0, i[0]),
        _error(torch.nn.functional.cross_entropy, x[:1], i[0]),
        _error(torch.scatter, x, 0, i, 1.0),
        _error(torch.kthvalue, x, 40),
        _error(torch.roll, x, ()),
        _error(lambda: i // (i - i)),
        _error(torch.bucketize, x, x),
        _error(torch.nn.functional.smooth_l1_loss, x, x, None, None, "mean", -1.0),
        *(
            _error(torch.nn.functional.pad, x.new_zeros(2, 0, 6), pad, mode)
            for mode in ("reflect", "replicate")
            for pad in ((1, 1), (-3, -3))
        ),
        _error(torch.nn.functional.pad, x.new_zeros(2, 1, 6), (-3, -3), "replicate"),
        *(_error(torch.linalg.vector_norm, x[:0], order, dim) for order in (-1, torch.inf) for dim in (None, 0, 1)),
    )


@case(lambda: (t(4, 2),), lambda: (t(5, 2),))
def views_as_other_types(x):
    z = torch.view_as_complex(x * 2)
    y = z * 2
    parts = torch.view_as_real(y)
    real = y.real
    print(len(parts))
    return z, parts, parts._base is y, real._base is y, real._is_view(), y.imag._base is y, parts.add_(1), y
