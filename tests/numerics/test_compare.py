"""The rule itself: what it lets pass and what it does not."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.numerics.compare import check, differences, ulp
from tests.numerics.wide_runs import copies, perturbed_runs, reference_run, widened


def rule(ours, eager, function, *inputs):
    return differences(ours, eager, reference_run(function, *inputs), perturbed_runs(function, *inputs))


def test_equal_passes_without_a_reference():
    x = torch.tensor([1.0, float("nan"), float("inf"), -0.0])
    assert not differences(x, x.clone())


def test_without_a_reference_one_ulp_fails():
    x = torch.tensor([1.0, 2.0])
    found = differences(x, torch.nextafter(x, torch.tensor(9.0)))
    assert len(found) == 1 and "2 of 2 elements" in str(found[0])


@pytest.mark.parametrize(
    "ours",
    [
        torch.zeros(2, 3, dtype=torch.float64),
        torch.zeros(3, 2),
        torch.zeros(3, 2).t(),
        torch.zeros(2, 3).to_sparse(),
        [torch.zeros(2, 3)],
    ],
    ids=["dtype", "size", "strides", "layout", "structure"],
)
def test_facts(ours):
    assert differences(ours, torch.zeros(2, 3))


def test_strides_of_dimensions_of_one_count():
    assert differences(torch.zeros(4, 1), torch.empty_strided((4, 1), (1, 4)).zero_())


def test_a_few_ulp_pass_and_many_fail():
    x = torch.rand(1000) + 0.5
    eager = x.exp()
    near = eager + 3 * ulp(eager.double(), torch.float32).float()
    far = eager.clone()
    far[17] += 20 * ulp(eager.double(), torch.float32).float()[17]
    assert not rule(near, eager, torch.exp, x)
    found = rule(far, eager, torch.exp, x)
    assert len(found) == 1 and "1 of 1000 elements" in str(found[0]) and "[17]" in str(found[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_wrong_by_a_thousandth_fails_in_float32_only(dtype):
    x = (torch.rand(100) + 0.5).to(dtype)
    eager = x.sin()
    found = rule((eager.double() * 1.001).to(dtype), eager, torch.sin, x)
    assert bool(found) == (dtype == torch.float32)
    assert rule((eager.double() * 1.1).to(dtype), eager, torch.sin, x)


def test_fused_half_precision_may_be_better_than_eager():
    def program(x):
        return (x * 1.01 + x) * 3 - x * 6

    x = torch.randn(256, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert not rule(program(x.float()).bfloat16(), program(x), program, x)


def test_eager_overflow_may_be_repaired_but_not_made():
    def program(x):
        return (x * x).sqrt()

    x = torch.tensor([300.0, 2.0], dtype=torch.float16)
    assert program(x)[0].isinf()
    assert not rule(program(x.float()).half(), program(x), program, x)
    assert rule(torch.tensor([300.0, float("inf")], dtype=torch.float16), program(x), program, x)


def test_nan_must_stand_where_eager_has_it():
    x = torch.tensor([-1.0, 4.0])
    assert rule(torch.tensor([0.0, 2.0]), x.sqrt(), torch.sqrt, x)
    assert rule(torch.tensor([float("nan"), float("nan")]), x.sqrt(), torch.sqrt, x)
    assert not rule(torch.tensor([float("nan"), 2.0]), x.sqrt(), torch.sqrt, x)


def test_cancellation_is_judged_by_the_condition():
    x = torch.tensor([1.0, 1e-3, -1.0], dtype=torch.float32)
    other_order = ((x[0] + x[2]) + x[1]).reshape(())
    assert not rule(other_order, x.sum(), torch.sum, x)
    assert rule(other_order + 1e-5, x.sum(), torch.sum, x)


def test_integers_are_exact():
    x = torch.arange(10)
    assert rule(x + 1, x, lambda t: t * 1, x)
    assert rule(x != 3, x != 4, lambda t: t != 4, x)


def test_complex():
    x = torch.randn(50, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    eager = x * x
    assert not rule(eager * (1 + 1e-7), eager, lambda t: t * t, x)
    assert rule(eager.conj().resolve_conj(), eager, lambda t: t * t, x)


def test_widened_programs_that_name_dtypes():
    def program(x):
        y = x.float().pow(2).mean(-1, dtype=torch.float32)
        return (y + torch.ones(3)).to(torch.bfloat16)

    with widened():
        assert program(torch.rand(3, 5, dtype=torch.float64)).dtype == torch.float64
    assert program(torch.rand(3, 5)).dtype == torch.bfloat16


def test_copies_keep_aliases_and_strides():
    base = torch.arange(24.0).reshape(4, 6)
    a, b = copies([base, base[1:, ::2]])
    a[1, 2] = -1
    assert b[0, 1] == -1 and b.stride() == (6, 2) and base[1, 2] == 8


def test_check_names_what_and_where():
    with pytest.raises(AssertionError, match=r"(?s)softmax float32.*result 0 of 1: 1 of 4 elements"):
        check(torch.tensor([1.0, 2, 3, 5]), torch.tensor([1.0, 2, 3, 4]), None, "softmax float32")


def test_floats_seen_as_bits_have_a_reference():
    def program(x):
        bits = x.view(torch.int32)
        y = bits * 0.5 + x.sin()
        x[1] = 2.5  # the bits follow
        bits[2] = 0x3F800000  # and the number follows the bits
        return y, bits * 1.0, x * 3

    x = torch.rand(6, generator=torch.Generator().manual_seed(4)) + 0.5
    eager = program(x.clone())
    wide = reference_run(program, x)()
    assert all(torch.allclose(w, e.double(), rtol=1e-6, atol=0) for w, e in zip(wide, eager, strict=True))
    assert wide[2][2] == 3 and wide[1][1] == eager[1][1]
    near = [e + 2 * ulp(e.double(), torch.float32).float() for e in eager]
    far = [e + 40 * ulp(e.double(), torch.float32).float() for e in eager]
    assert not differences(near, list(eager), reference_run(program, x), perturbed_runs(program, x))
    found = differences(far, list(eager), reference_run(program, x), perturbed_runs(program, x))
    assert len(found) == 3


def test_a_conversion_that_copies_copies_in_the_reference_too():
    def program(x):
        y = x.to(torch.float32)
        y.view(-1)[:2].fill_(3)
        return x.sum(), y

    x = torch.randn(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(5))[:, 1::2]
    wide = reference_run(program, x)()
    assert wide[0] == x.sum() and bool((wide[1].reshape(-1)[:2] == 3).all())


def test_arguments_that_share_memory_share_it_in_the_reference():
    def program(x, y):
        x.mul_(2)
        return y + 1

    x = torch.rand(8)
    assert torch.allclose(reference_run(program, x, x[2:])(), 2 * x[2:].double() + 1, rtol=1e-7)


def test_the_condition_counts_each_result_in_its_own_dtype():
    def program(x):
        return (x.half() + 1).float() * 2 - 2.25

    x = torch.tensor([0.12503, 0.3])
    eager, wide = program(x), reference_run(program, x)()
    half = torch.finfo(torch.float16).eps
    assert not rule((wide + half).float(), eager, program, x)
    assert rule((wide + 40 * half).float(), eager, program, x)


def test_what_is_written_in_place_moves_too():
    def program(x):
        y = x - 1
        y.add_(1e4)
        return y - 1e4

    x = torch.rand(20) + 1
    moved = [(p() - (x - 1).double()).abs().max() for p in perturbed_runs(program, x)]
    assert max(moved) > 5e-4


def test_decisions_do_not_move():
    def program(x):
        return torch.where(x > 1, x, -x), x.floor() * 1000, x.argmax()

    x = torch.tensor([1.0, 2.0, 2.0, 0.5])
    wide = reference_run(program, x)()
    for run in perturbed_runs(program, x):
        for moved, still in zip(run(), wide, strict=True):
            assert torch.allclose(moved.double(), still.double(), rtol=1e-6)


def test_norms_of_float64_have_a_reference_better_than_eagers():
    x = torch.randn(200000, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    true = math.sqrt(math.fsum((x * x).tolist()))
    for program in (lambda x: x.norm(2, 0), lambda x: x[0] / F.normalize(x, dim=0)[0]):
        assert abs(reference_run(program, x)().item() - true) < 8e-16 * true
        ours = torch.tensor(true, dtype=torch.float64)
        assert not rule(ours, program(x), program, x)
        assert rule(ours * (1 + 1e-12), program(x), program, x)


def test_the_variance_of_equal_numbers_is_judged_by_the_condition():
    def program(x):
        y = x.expand(3, 4)
        x.mul_(1.5)  # the view shows it
        return y.std(0), y.sum(0)

    x = torch.tensor([1.1, -2.3, 0.7, 5.9])
    eager = program(x.clone())
    assert not eager[0].any()
    given = reference_run(program, x), perturbed_runs(program, x)
    assert not differences((eager[0] + 2e-7, eager[1]), eager, *given)
    assert differences((eager[0] + 1e-5, eager[1]), eager, *given)
    assert differences((eager[0], eager[1] + 1e-4), eager, *given)


def in_order(terms):
    """Their sum, one after the other in their own type."""
    total = torch.zeros_like(terms[0])
    for term in terms:
        total = total + term
    return total


def test_a_sum_is_as_sure_as_the_sizes_of_its_terms():
    def program(x, y):
        return (x * y).sum(0)

    g = torch.Generator().manual_seed(7)
    x, y = torch.randn(2, 4096, 50, generator=g)
    exact = (x.double() * y).sum(0).float()
    assert not rule(in_order(x * y), exact, program, x, y)  # as if eager were right by chance
    assert rule(in_order(x * y) + (x * y).abs().sum(0) * 1e-6, exact, program, x, y)
    # Half precision is added up in single.
    x, y = x.bfloat16(), y.bfloat16()
    exact = (x * y).float().sum(0).bfloat16()
    assert rule(in_order(x * y), exact, program, x, y)
    # One after the other errs with the number of terms where none cancel.
    x, y = torch.rand(2, 50000, 4, generator=g)
    assert rule(in_order(x * y), (x.double() * y).sum(0).float(), program, x, y)


def running_mean(x, w):
    mean, variance = torch.zeros(32), torch.ones(32)
    F.batch_norm((x * w).t(), mean, variance, training=True, momentum=1.0)
    return mean


@pytest.mark.parametrize(
    ("program", "sizes"),
    [
        (lambda x, w: F.linear(x, w)[:, :1], 1500),
        (lambda x, w: F.conv2d(x.view(32, -1, 1, 1), w[:, :, None, None]).flatten(1)[:, :1], 1500),
        (lambda x, w: torch.var_mean(x * w, 1)[1], 1.5),
        (running_mean, 1.5),
        (lambda x, w: (F.layer_norm(x, (1024,)) * w[0]).sum(1), 800),
        (lambda x, w: F.scaled_dot_product_attention(x[None], w[None], x[None])[0, :, 0], 5),
    ],
    ids=["linear", "convolution", "var_mean", "batch_norm", "layer_norm", "attention"],
)
def test_sums_in_operators_move_with_their_terms(program, sizes):
    """Numbers of both signs: by what each moves alone the sums hardly move."""
    g = torch.Generator().manual_seed(8)
    x, w = torch.rand(32, 1024, generator=g) + 1, torch.ones(32, 1024)
    w[:, ::2] = -1
    wide = reference_run(program, x, w)()
    moved = max((run() - wide).abs().max() for run in perturbed_runs(program, x, w))
    assert 0.8 * sizes < moved / torch.finfo(torch.float32).eps < 4 * sizes


def test_gradients_move():
    """The gradient of softmax sums to zero except for the rounding of its steps."""

    def program(x, g):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = (F.softmax(x, -1) * g).sum()
        return torch.autograd.grad(loss, x)[0].sum(-1)

    x, g = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(9))
    exact = torch.zeros(64)
    assert not rule(program(x, g), exact, program, x, g)
    assert rule(program(x, g) + 1e-5, exact, program, x, g)
