"""View relations of results: `_base` and `_is_view()` are eager's if the base is an input or another result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import vesta


def views_of_each_other(make: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """Programs on a tensor that `make` gives: which of it and of its views are results, and in which order."""

    def both(f: Callable[[Any], Any], swap: bool = False) -> Callable[[Any], Any]:
        def program(x):
            y = make(x)
            return (f(y), y) if swap else (y, f(y))

        return program

    kinds: dict[str, Callable[[Any], Any]] = {
        "view": lambda y: y.view(-1),
        "view of a view": lambda y: y.view(-1)[:1],
        "detached": lambda y: y.detach(),
        "view of a detached": lambda y: y.detach().view(-1),
        "data": lambda y: y.data,
        "split": lambda y: y.view(-1).split(3),
        "unbound": lambda y: y.view(-1).unbind(),
        "contiguous": lambda y: y.contiguous(),
        "flat": lambda y: y.flatten(),
        "of its own type": lambda y: y.view(torch.float32),
        "of another type": lambda y: y.view(torch.int32),
        "written": lambda y: y.mul_(2).view(-1),
    }
    programs: dict[str, Callable[[Any], Any]] = {}
    for name, f in kinds.items():
        programs[f"and its {name}"] = both(f)
        programs[f"after its {name}"] = both(f, swap=True)
        programs[f"only its {name}"] = lambda x, f=f: f(make(x))
    programs["two views"] = lambda x: (lambda y: (y.view(-1), y.view(-1)[:1]))(make(x))
    programs["two detached"] = lambda x: (lambda y: (y.detach(), y.detach().view(-1)))(make(x))
    programs["a detached and its view"] = lambda x: (lambda d: (d, d.view(-1)))(make(x).detach())
    programs["the view of a detached, which follows"] = lambda x: (lambda d: (d.view(-1), d))(make(x).detach())
    programs["written through its view"] = lambda x: (lambda y: (y, y.view(-1).mul_(2)))(make(x))
    return programs


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **{f"input {name}": f for name, f in views_of_each_other(lambda x: x).items() if "writ" not in name},
    **{f"new {name}": f for name, f in views_of_each_other(lambda x: x + 1).items()},
    **{f"view {name}": f for name, f in views_of_each_other(lambda x: x.view(-1)).items() if "writ" not in name},
    "itself": lambda x: x,
    "detached twice": lambda x: x.detach().detach(),
    "expand_as": lambda x: x.expand_as(x),
    "expand": lambda x: x.expand(2, *x.shape),
    "broadcast": lambda x: (x.broadcast_to((2, *x.shape)), torch.broadcast_tensors(x, x)),
    "reshape": lambda x: (x.reshape(-1), x.reshape(x.shape), x.ravel()),
    "chunk": lambda x: (x.view(-1).chunk(2), x.unsqueeze(0).chunk(1)),
    "tensor_split": lambda x: x.view(-1).tensor_split(2),
    "split_with_sizes": lambda x: x.view(-1).split_with_sizes([1, x.numel() - 1]),
    "transposes": lambda x: (x.view(1, -1).T, x.view(1, -1).mT, x.view(1, -1).H, x.view(1, -1).mH, x.view(1, -1).t()),
    "axes": lambda x: (x.unsqueeze(0).movedim(0, -1), x.unsqueeze(0).swapaxes(0, -1), x.permute(tuple(range(x.dim())))),
    "real": lambda x: (x.real, torch.real(x), x.conj(), x.resolve_conj()),
    "complex": lambda x: torch.view_as_complex(x.reshape(-1, 1).expand(-1, 2).contiguous()),
    "dimensions": lambda x: (
        (x.unsqueeze(0), x.squeeze(), torch.atleast_1d(x), torch.atleast_2d(x), x.unflatten(0, (1, -1)))
        if x.dim()
        else (x.unsqueeze(0), x.squeeze(), torch.atleast_1d(x))
    ),
    "alias": lambda x: torch.ops.aten.alias(x),
    "lift_fresh": lambda x: torch.ops.aten.lift_fresh(x),
    "unchanged": lambda x: (x.contiguous(), x.to(torch.float32), x.to("cpu"), x.float(), x.type_as(x), x.cpu()),
    "unchanged by modules": lambda x: (torch.nn.Identity()(x), torch.nn.functional.dropout(x, 0.5, False), +x),
    "items": lambda x: (x[...], x[None], x.view(-1)[:2], x.view(-1)[:], x.view(-1)[0]),
    "as_strided": lambda x: x.as_strided((1,), (1,)),
    "narrow": lambda x: (x.view(-1).narrow(0, 0, 1), x.view(-1).select(0, 0), x.view(-1).unfold(0, 1, 1)),
    "diagonal": lambda x: (x.view(-1, 1).diagonal(), x.view(-1, 1).diag()),
    "copies": lambda x: (x.clone(), torch.cat([x.view(-1)]), x.view(1, -1).triu(), x.flip(0) if x.dim() else x),
    "meshgrid": lambda x: torch.meshgrid(x.view(-1), x.view(-1), indexing="ij"),
}
INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "0-d": lambda: torch.tensor(2.0),
    "2-d": lambda: torch.randn(3, 4),
    "a view": lambda: torch.randn(24)[12:].view(3, 4),
}
MODES: dict[str, tuple[Any, bool]] = {
    "grad mode": (torch.enable_grad, False),
    "no_grad": (torch.no_grad, False),
    "no_grad, requires grad": (torch.no_grad, True),
    "inference mode": (torch.inference_mode, False),
    "gradients": (torch.enable_grad, True),
}


def tensors(x: Any) -> Iterator[Any]:
    if isinstance(x, list | tuple):
        for y in x:
            yield from tensors(y)
    else:
        yield x


def relations(given: list[torch.Tensor], results: list[torch.Tensor]) -> list[Any]:
    """For each result: the object that it is, and the object that its base is."""
    names: dict[int, str] = {}
    for kind, of_kind in ("input", given), ("base of input", [t._base for t in given]), ("result", results):
        for i, t in enumerate(of_kind):
            if t is not None:
                names.setdefault(id(t), f"{kind} {i}")
    return [
        (names[id(t)], t.requires_grad, "none" if t._base is None else names.get(id(t._base), "hidden"))
        for t in results
    ]


def agree(eager: list[Any], found: list[Any]) -> bool:
    """A base that is no input and no result is not kept for a compiled call."""
    return len(eager) == len(found) and all(
        e[:2] == f[:2] and (e[2] == f[2] or (e[2] == "hidden" and f[2] in ("none", "hidden")))
        for e, f in zip(eager, found, strict=True)
    )


def check(program: Callable[..., Any], make: Callable[[], list[torch.Tensor]], mode: Any, name: str) -> None:
    compiled = vesta.compile(program)
    for _ in range(2):
        found = []
        for f in (program, compiled):
            given = make()
            with mode():
                results = [t for t in tensors(f(*given)) if isinstance(t, torch.Tensor)]
            found.append(relations(given, results))
            assert all(t._is_view() == (t._base is not None) for t in results)
        assert agree(*found), (name, *found)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", INPUTS)
def test_views(mode: str, kind: str) -> None:
    enter, requires_grad = MODES[mode]

    def make() -> list[torch.Tensor]:
        x = INPUTS[kind]()
        return [x.requires_grad_() if requires_grad and x._base is None else x]

    for name, program in PROGRAMS.items():
        check(program, make, enter, f"{name}, {kind}, {mode}")


def test_of_a_computed_input() -> None:
    for name, program in PROGRAMS.items():
        check(program, lambda: [torch.randn(3, 4, requires_grad=True) * 2], torch.enable_grad, name)


def view_samples() -> Iterator[tuple[str, Any, Any]]:
    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        try:
            samples = list(op.sample_inputs("cpu", torch.float32))[:4]
        except Exception:
            continue
        for sample in samples:
            # as_strided and its like: some samples need the memory that their input is a part of.
            is_list = not isinstance(sample.input, torch.Tensor)
            try:
                copies = [t.detach().clone() for t in tensors([sample.input])]
                result = list(tensors(op.op(copies if is_list else copies[0], *sample.args, **sample.kwargs)))
            except Exception:
                continue
            if any(isinstance(t, torch.Tensor) and (t._is_view() or any(t is g for g in copies)) for t in result):
                yield op.name, op, sample


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_operators_that_view(mode: str) -> None:
    enter, requires_grad = MODES[mode]
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, op, sample in view_samples():
            is_list = not isinstance(sample.input, torch.Tensor)
            given = [t.detach() for t in tensors([sample.input])]

            def program(*ts: Any, op: Any = op, sample: Any = sample, is_list: bool = is_list) -> Any:
                return op.op([*ts] if is_list else ts[0], *sample.args, **sample.kwargs)

            def make(given: list[torch.Tensor] = given) -> list[torch.Tensor]:
                return [t.clone().requires_grad_(requires_grad and t.is_floating_point()) for t in given]

            try:
                with enter():
                    program(*make())
            except RuntimeError:  # operators that write into their argument, which requires grad here
                continue
            check(program, make, enter, f"{name}, {mode}")
            count += 1
    assert count > 100


def test_a_detached_result_keeps_no_gradients() -> None:
    x = torch.randn(4, requires_grad=True)

    def program(x):
        y = x * 2
        return y, y.detach(), y.split(2)

    y, detached, parts = vesta.compile(program)(x)
    assert detached.grad_fn is None and not detached._is_view()
    assert all(part._base is y for part in parts)
    (parts[0].sum() * 3 + y.sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [8, 8, 2, 2]


def test_writes_reach_all_that_share() -> None:
    def program(x):
        y = x + 1
        d = y.detach()
        return y, d, d.view(-1), y.view(-1)

    y, *others = vesta.compile(program)(torch.zeros(2, 2))
    version = y._version
    others[1].add_(1)
    assert all(t.view(-1).tolist() == [2.0] * 4 and t._version == version + 1 for t in (y, *others))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x.view(-1)._base is x, x + 1),
        lambda x: ((x + 1).view(-1)._base.sum() + 1, x + 1),
        lambda x: (x.detach()._base, x.view(-1)._is_view(), (x + 1).view(-1)._is_view(), (x + 1)._is_view(), x + 1),
        lambda x: (lambda y: (y.view(-1)[:1]._base is y, y.split(1)[0]._base is y, y))(x * 2),
        lambda x: (x._base, x._is_view(), x + 1),
    ],
)
def test_a_program_that_asks(program: Callable[[Any], Any]) -> None:
    compiled = vesta.compile(program)
    x = torch.ones(3, 4)
    for _ in range(3):
        for given in (x, x[1:]):
            found, wanted = ([str(t) for t in f(given)] for f in (compiled, program))
            assert found == wanted
