"""Faults at random places of compiles and runs: results, exceptions and side effects are eager's, and explain() shows
the fault.

    python -m tests.programs.faults --count 1000 --seed 1
    python -m tests.programs.faults --only 17 --seed 1          the place of number 17 alone, with what it reached
    python -m tests.programs.faults --device cuda               programs on a GPU

A place is one of those that a program's first calls reach: an operator that is traced, a pass, a stage, a kernel, a
run, on a GPU a call that is recorded (src/base/fault.h). A fault throws, has no memory or takes time.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import vesta
from tests.numerics.compare import differences
from tests.numerics.wide_runs import perturbed_runs, reference_run
from tests.programs.fault_programs import MAKERS, Instance, generated, hostile, zoo
from tests.programs.hostile import HOSTILE
from vesta import _C

CALLS = 3
KINDS = ("throw", "memory", "delay")
DELAY = 0.1  # seconds, more than the deadline of a call
HANG = 100  # seconds for one place
MODELS = ("lstm", "gpt2", "distilbert", "mobilenetv3_small")
# What explain() says of a fault, by its kind.
SAYS = {"throw": ("a fault was injected",), "memory": ("bad_alloc",), "delay": ("in the background", "deadline_ms")}
HAS_STATE = ("state", "window")  # in names of hostile programs whose results depend on the calls before

Maker = Callable[[float], Instance]
Entry = Callable[[Any, dict[str, Any]], Any]


def choose(rng: random.Random) -> tuple[str, Maker]:
    """A program's name and maker."""
    kind = rng.choices(("own", "hostile", "generated", "model"), (60, 20, 15, 5))[0]
    if kind == "own":
        name = rng.choice(sorted(MAKERS))
        return name, MAKERS[name]
    if kind == "hostile":
        name = rng.choice([n for n in HOSTILE if not any(word in n for word in HAS_STATE)])
        return name, lambda _: hostile(name)
    if kind == "generated":
        seed = rng.randrange(100_000)
        return f"generated {seed}", lambda _: generated(seed)
    name = rng.choice(MODELS)
    return name, lambda _: zoo(name)


def observed(x: Any) -> Any:
    """What can be compared of results, arguments and states, as they are now."""
    if isinstance(x, nn.Module):
        gradients = {name: p.grad for name, p in x.named_parameters() if p.grad is not None}
        return observed([dict(x.state_dict()), gradients, getattr(x, "count", 0)])
    if hasattr(x, "getvalue"):
        return x.getvalue()
    if hasattr(x, "__next__"):
        return next(copy.copy(x), None)
    if hasattr(x, "to_tuple"):
        x = x.to_tuple()
    if type(x) in (list, tuple):
        return [observed(item) for item in x]
    return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, x)


def outcome(instance: Instance, called: Any, n: int) -> tuple[Any, str]:
    torch.manual_seed(n)
    random.seed(n)
    try:
        result, error = instance.run(called, n), ""
    except Exception as e:
        result, error = None, f"{type(e).__name__}: {e}"
    return observed((result, torch.rand(()), random.random())), error


def difference(theirs: Any, ours: Any) -> str:
    try:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
    except AssertionError as error:
        return str(error)
    except (TypeError, ValueError):  # not tensors
        a, b = pytree.tree_leaves(theirs), pytree.tree_leaves(ours)
        if len(a) != len(b):
            return f"{ours} in place of {theirs}"
        for x, y in zip(a, b, strict=True):
            same = difference(x, y) if isinstance(x, torch.Tensor) else "" if x == y else f"{y} in place of {x}"
            if same:
                return same
    return ""


def compiled_of(instance: Instance, kind: str, entry: Entry) -> Any:
    options: dict[str, Any] = {"recompile_share": -1, "deadline_ms": 80 if kind == "delay" else 10_000}
    # Without a number of its own, a program would find what the run before it has stored.
    return entry(instance.program, options | {"cache": instance.has_number})


def by_vesta(program: Any, options: dict[str, Any]) -> Any:
    return vesta.compile(program, options=options)


def directly(program: Any, options: dict[str, Any]) -> Any:
    return vesta.trace_and_compile(program, **options)


def places(make: Maker, factor: float, entry: Entry) -> list[str]:
    """The places that the calls of a program reach: the stage of each."""
    instance = make(factor)
    compiled = compiled_of(instance, "throw", entry)
    _C.inject_fault_at(2**62, "delay")
    for n in range(CALLS):
        outcome(instance, compiled, n)
    _C.inject_fault_at(0, "none")
    return _C.stages_reached()


def compare(eager: Instance, ours: Instance, compiled: Any) -> str:
    """What is wrong with the calls of `compiled`, or ""."""
    for n in range(CALLS):
        theirs, their_error = outcome(eager, eager.program, n)
        result, error = outcome(ours, compiled, n)
        if error != their_error:
            return f"call {n} raises {error or 'nothing'} in place of {their_error or 'nothing'}"
        their_state, our_state = observed(eager.state), observed(ours.state)
        found = difference(theirs, result)
        if not found and (found := difference(their_state, our_state)):
            found = f"state: {found}"
        if found and eager.given:
            found = beyond_the_rule(eager.program, eager.given(n), (theirs[0], their_state), (result[0], our_state))
        if found:
            return f"call {n}: {found}"
    return ""


def beyond_the_rule(program: Any, given: list[torch.Tensor], theirs: Any, ours: Any) -> str:
    """How results and written arguments are worse than the rule of docs/numerics.md allows."""

    def both(*tensors: torch.Tensor) -> Any:
        return program(*tensors), list(tensors)

    reference, perturbed = reference_run(both, *given), perturbed_runs(both, *given)
    return "\n".join(map(str, differences(ours, theirs, reference, perturbed)))


def unseen(kind: str, stage: str) -> str:
    """What explain() does not say of a fault. Time that a run takes is none of Vesta's, and that of a trace which came
    to nothing is in stats()."""
    if kind == "delay" and stage in ("run", "results", "backward", "record", "capture"):
        return ""
    text = str(vesta.explain())
    explained = vesta.explain()
    made = [*explained.variants, *(g for c in explained.captures for g in c.graphs)]
    took = [m.total_ms for m in made] + [stage.ms for stage in vesta.stats().stages.values()]
    slow = max(took, default=0) >= 1e3 * DELAY
    if (kind == "delay" and slow) or any(words in text for words in SAYS[kind]):
        return ""
    return f"explain() does not show it:\n{text}"


def trial(number: int, seed: int) -> tuple[str, str, str]:
    """The place, the stage where the fault was ("" if it was not reached), and what was wrong, or ""."""
    rng = random.Random(f"{seed} {number}")
    name, make = choose(rng)
    kind = rng.choice(KINDS)
    factor = 1 + (number % 4096) / 8192
    entry = directly if name.startswith("generated") and rng.random() < 0.5 else by_vesta
    known = places(make, factor + 1, entry)  # kernels of other numbers, which leave those below to be compiled
    if not make(factor).has_number:
        known = places(make, factor, entry)  # now its kernels are in the process
    if not known:
        return f"{number}: {name}", "", ""
    # Each stage as often as any other, though there are many passes and operators.
    group = rng.choice(sorted({stage.split(":")[0] for stage in known}))
    at = rng.choice([i for i, stage in enumerate(known) if stage.split(":")[0] == group])
    eager, ours = make(factor), make(factor)
    compiled = compiled_of(ours, kind, entry)
    vesta.reset_stats()
    _C.inject_fault_at(at, kind, DELAY)
    wrong = compare(eager, ours, compiled)
    vesta.wait()
    _C.inject_fault_at(0, "none")
    reached = _C.stages_reached()
    stage = reached[at] if at < len(reached) else ""
    wrong = wrong or (unseen(kind, stage) if stage else "")
    return f"{number}: {name}, {kind} at place {at} of {len(known)}", stage, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    if arguments.device != "cpu":
        torch.set_default_device(arguments.device)
    stages: Counter[str] = Counter()
    failures = 0
    first, count = (arguments.only, 1) if arguments.only is not None else (arguments.first, arguments.count)
    for number in range(first, first + count):
        faulthandler.dump_traceback_later(HANG, exit=True)
        place, stage, wrong = trial(number, arguments.seed)
        stages[stage.split(":")[0] or "not reached"] += 1
        if wrong or arguments.only is not None:
            failures += bool(wrong)
            print(f"{place}, {stage or 'not reached'}: {wrong or 'right'}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"{count} places, {failures} failures:", ", ".join(f"{s} {n}" for s, n in stages.most_common()), flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
