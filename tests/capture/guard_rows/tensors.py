"""Facts of tensor arguments."""

from __future__ import annotations

import torch

from tests.capture.guard_rows import Runner, row


def _values(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = 1
    for each in size:
        count *= each
    return (torch.arange(count) % 7 - 3).reshape(size).to(dtype)


@row
def dtype(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x / 2 + 1, x.dtype == torch.float32

    kinds = (torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool, torch.complex64, torch.float32)
    for dtype in kinds:
        runner.call(f, _values(2, 3, dtype=dtype))
    runner.hit(f, _values(2, 3) + 1)
    runner.hit(f, _values(2, 3, dtype=torch.int64))


@row
def sizes(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x.reshape(-1) * x.shape[0], x.sum(-1)

    for size in ((2, 3), (4, 3), (5, 3), (6, 3), (6, 5), (1, 3), (0, 3), (2, 1), (2, 3, 4), (7,), (2, 3)):
        runner.call(f, _values(*size))
    runner.hit(f, _values(9, 3))


@row
def size_compared(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x + 1 if x.shape[0] * 2 < 16 else x - 1

    for rows in (3, 5, 7, 8, 9, 20, 7, 1, 0):
        runner.call(f, _values(rows, 2))
    runner.hit(f, _values(6, 2))
    runner.hit(f, _values(12, 2))


@row
def size_divisible(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x.view(-1, 4).sum(0) if x.numel() % 4 == 0 else x.sum()

    for count in (8, 12, 16, 9, 13, 4, 20, 3):
        runner.call(f, _values(count))


@row
def equal_sizes(runner: Runner) -> None:
    @runner.compile
    def f(x, y):
        return x.sum() + y.sum() if x.shape == y.shape else x.sum() - y.sum()

    for rows, others in ((3, 3), (4, 4), (5, 5), (4, 5), (6, 6), (5, 4)):
        runner.call(f, _values(rows), _values(others))


@row
def broadcasting(runner: Runner) -> None:
    @runner.compile
    def f(x, y):
        return x + y

    pairs = (((2, 3), (2, 3)), ((4, 3), (4, 3)), ((4, 3), (1, 3)), ((4, 3), (3,)), ((1, 3), (4, 3)), ((4, 3), (5, 3)))
    for left, right in pairs:
        runner.call(f, _values(*left), _values(*right))


@row
def strides(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x + 1, x.is_contiguous(), x.stride()

    x = _values(4, 6)
    for each in (x, x.T, x[:, ::2], x[1:3], x[:, :1], x.expand(4, 6), x[:1].expand(4, 6), x):
        runner.call(f, each)
    runner.hit(f, x * 2)


@row
def memory_format(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2, x.is_contiguous(memory_format=torch.channels_last)

    x = _values(2, 3, 4, 5)
    for each in (x, x.to(memory_format=torch.channels_last), x):
        runner.call(f, each)


@row
def storage_offset(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x.storage_offset(), x.as_strided((2,), (1,))

    x = _values(8)
    for each in (x[:4], x[1:5], x[2:6], x[:4]):
        runner.call(f, each)


@row
def offset_that_is_not_read(runner: Runner) -> None:
    f = runner.compile(lambda x: x * 2 + 1)
    x = _values(64)
    runner.call(f, x[:8])
    runner.hit(f, x[16:24])
    runner.hit(f, x[1:9])
    runner.hit(f, x[3:11])


@row
def requires_grad(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2 if x.requires_grad else x * 3

    x = _values(2, 3)
    runner.call(f, x)
    runner.call(f, x.clone().requires_grad_())
    runner.call(f, x)
    x.requires_grad_()
    runner.call(f, x)
    x.requires_grad_(False)
    runner.hit(f, x)


@row
def leaf(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2, x.is_leaf, x.grad_fn is None

    x = _values(2, 3).requires_grad_()
    for each in (x, x * 1, x.detach(), x):
        runner.call(f, each)


@row
def gradient(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2 if x.grad is None else x + x.grad

    x = _values(2, 3).requires_grad_()
    runner.call(f, x)
    x.sum().backward()
    runner.call(f, x)
    x.grad.mul_(5)
    runner.call(f, x)
    x.grad = None
    runner.call(f, x)


@row
def device(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2 if x.device.type == "cpu" else torch.ones(2)

    for each in (_values(2), _values(2).to("meta"), _values(2)):
        runner.call(f, each)


@row
def same_tensor_twice(runner: Runner) -> None:
    @runner.compile
    def f(x, y):
        return x + 1 if x is y else x - y

    x = _values(2, 3)
    for left, right in ((x, x * 1), (x, x), (x * 1, x)):
        runner.call(f, left, right)
    runner.hit(f, x * 2, x)


@row
def written_through_another_argument(runner: Runner) -> None:
    @runner.compile
    def f(x, y):
        x.add_(1)
        return y * 2

    x = _values(4)
    runner.call(f, x, _values(4))
    runner.call(f, x, x)
    runner.call(f, x[:3], x[1:])
    runner.call(f, x[1:], x[:3])
    runner.call(f, x[:2], x[2:])
    runner.call(f, x, x.view(2, 2))
    runner.call(f, x, x.detach())
    runner.see(x)


@row
def three_aliases(runner: Runner) -> None:
    @runner.compile
    def f(a, b, c):
        b.mul_(2)
        return a + c

    x, y = _values(4), _values(4) + 1
    for arguments in ((x, y, x), (x, x, y), (y, x, x), (x, x, x), (x, y, y)):
        runner.call(f, *arguments)
    runner.see(x, y)


@row
def in_a_list_and_alone(runner: Runner) -> None:
    @runner.compile
    def f(x, xs):
        x.mul_(2)
        return sum(each.sum() for each in xs)

    x, y = _values(4), _values(4)
    for xs in ([y, y], [x, y], [x, x], [y, x[1:]], [y, y]):
        runner.call(f, x, xs)


@row
def kind_of_tensor(runner: Runner) -> None:
    class Mine(torch.Tensor):
        pass

    @runner.compile
    def f(x):
        return type(x * 2).__name__, isinstance(x, torch.nn.Parameter), x * 2

    x = _values(2, 3)
    for each in (x, torch.nn.Parameter(x), x.as_subclass(Mine), torch.nn.Buffer(x), x):
        runner.call(f, each)


@row
def attribute_on_a_tensor(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * getattr(x, "scale", 2.0)

    x = _values(2, 3)
    runner.call(f, x)
    x.scale = 3.0
    runner.call(f, x)
    x.scale = 4.0
    runner.call(f, x)
    del x.scale
    runner.call(f, x)


@row
def values_of_a_tensor(runner: Runner) -> None:
    @runner.compile
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    x = _values(2, 3)
    for each in (x + 5, x - 5, x + 6):
        runner.call(f, each)
    for each in (x + 5, x - 5):
        runner.hit(f, each)


@row
def item(runner: Runner) -> None:
    @runner.compile
    def f(x, n):
        return x * n.item() + len(x.tolist())

    x = _values(2, 3)
    for n in (2, 3, 2.5, True, 4):
        runner.call(f, x, torch.tensor(n))


@row
def conjugate_and_negative(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2, x.is_conj(), x.is_neg()

    x = torch.complex(_values(3), _values(3) + 1)
    for each in (x, x.conj(), x.conj().imag, x.real, x):
        runner.call(f, each)


@row
def layout(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return (x * 2).to_dense() if x.layout != torch.strided else x * 3

    x = _values(3, 3)
    runner.call(f, x)
    runner.call(f, x.to_sparse())
    runner.call(f, x)


@row
def made_in_inference_mode(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * 2, x.is_inference()

    with torch.inference_mode():
        x = _values(3)
    for each in (_values(3), x, _values(3)):
        runner.call(f, each)
    with torch.inference_mode():
        runner.call(f, x)
        runner.call(f, _values(3))


@row
def resized(runner: Runner) -> None:
    f = runner.compile(lambda x: x * 2 + x.shape[0])
    x = _values(6)
    runner.call(f, x)
    x.resize_(2, 3)
    runner.call(f, x)
    x.t_()
    runner.call(f, x)
    x.set_(_values(4))
    runner.call(f, x)
    x.data = _values(4, dtype=torch.float64)
    runner.call(f, x)


@row
def zero_dimensional(runner: Runner) -> None:
    f = runner.compile(lambda x, y: x * y)
    whole, real, none = torch.ones(3, dtype=torch.int64), torch.ones(3), torch.tensor(2.5, dtype=torch.float64)
    for x, y in (
        (whole, torch.tensor(2)),
        (whole, none),
        (real, none),
        (real, none.reshape(1)),
        (whole, 2),
        (whole, 2.5),
    ):
        runner.call(f, x, y)
