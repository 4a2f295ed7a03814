"""One operator's samples from op_db, each compiled and compared with eager. Runs in a child of tests.isolation."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy
import torch
from torch.testing._internal import common_methods_invocations, common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core as opinfo_core
from torch.utils import _pytree as pytree

from tests.numerics.compare import differences
from tests.numerics.entry_points import ENTRY_POINTS
from tests.numerics.wide_runs import copies, perturbed_runs, reference_run

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int64": torch.int64,
    "bool": torch.bool,
    "complex64": torch.complex64,
}
VARIANTS = ("function", "inplace", "out", "error")

# op_db walks the stack for a unittest to report to, at 17 ms a call.
common_utils.extract_test_fn = opinfo_core.extract_test_fn = lambda: None

# op_db's random operators seed the generator inside the operator; a tracer sees that only once. The harness seeds.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

# The values of these are whatever was in the memory.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# So is the state of a generator that attention on CUDA did not ask.
UNINITIALISED |= {"torch.ops.aten._flash_attention_forward", "torch.ops.aten._efficient_attention_forward"}


@dataclass(frozen=True)
class Task:
    """An operator's samples; `start` is the step to begin at, after a step before it killed its process."""

    op: int
    name: str
    dtypes: tuple[str, ...]
    variants: tuple[str, ...]
    backend: str
    seed: int
    per_dtype: int = 0  # draw at most so many samples of each dtype; 0: all
    only: tuple[int, ...] = ()  # these samples only
    start: tuple[int, int, int] = (0, 0, 0)
    device: str = "cpu"


@dataclass
class Outcome:
    """The outcome of one sample."""

    op: str
    dtype: str
    sample: int
    variant: str
    status: str  # ok, wrong, crash, hang
    detail: str = ""
    compiled: bool = False
    reason: str = ""
    kernels: list[list[str]] = field(default_factory=list)
    externs: dict[str, str] = field(default_factory=dict)
    recorded: bool = False

    def key(self) -> str:
        return f"{self.op} {self.dtype} sample {self.sample} {self.variant}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def tasks(
    backend: str,
    *,
    ops: Callable[[str], bool] = lambda name: True,
    dtypes: tuple[str, ...] = tuple(DTYPES),
    variants: tuple[str, ...] = VARIANTS,
    seed: int = 0,
    per_dtype: int = 0,
    only: tuple[int, ...] = (),
    device: str = "cpu",
) -> list[Task]:
    made = []
    for i, op in enumerate(op_db):
        if not ops(full_name(op)):
            continue
        supported = op.supported_dtypes(device)
        own = tuple(d for d in dtypes if DTYPES[d] in supported)
        if own:
            made.append(Task(i, full_name(op), own, variants, backend, seed, per_dtype, only, device=device))
    return made


def after(task: Task, step: tuple[int, int, int] | None, reason: str) -> Task | None:
    """The rest of the task when `step` has killed its process."""
    if step is None:
        return None
    return replace(task, start=(step[0], step[1], step[2] + 1))


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack for each lazy device
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def _random_state() -> torch.Tensor:
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states)


def _samples(op: Any, task: Task, dtype: torch.dtype) -> Iterator[tuple[int, Any, bool]]:
    """(number, sample, is an error sample)"""
    common_utils.set_rng_seed = lambda seed=None: _seed(task.seed)  # op_db asks for it before each sample
    _seed(task.seed)
    good = list(op.sample_inputs(task.device, dtype, requires_grad=False))
    numbers = list(range(len(good)))
    if task.only:
        numbers = [n for n in numbers if n in task.only]
    elif task.per_dtype and len(good) > task.per_dtype:
        numbers = sorted(random.Random(f"{task.seed} {task.name} {dtype}").sample(numbers, task.per_dtype))
    for n in numbers:
        yield n, good[n], False
    # Error samples come in a dtype of their own; they belong to the first.
    if "error" in task.variants and op.error_inputs_func is not None and str(dtype).endswith(task.dtypes[0]):
        try:
            wrong = list(op.error_inputs(task.device))
        except Exception:  # op_db's generator needs something that this build lacks
            return
        for n, e in enumerate(wrong):
            if not task.only or 10000 + n in task.only:
                yield 10000 + n, e.sample_input, True


def _fill(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Places for results, with something in them that no result may leave behind."""
    made = []
    for t in tensors:
        if t.layout != torch.strided:
            made.append(t.clone())
            continue
        place = torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=t.device)
        made.append(place.fill_(True if t.dtype == torch.bool else 73))
    return made


class _Call:
    """A variant of a sample as a function of flat tensors."""

    def __init__(self, op: Any, sample: Any, variant: str) -> None:
        leaves, self._spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self._where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.tensors = [leaves[i] for i in self._where]
        self._function = op.inplace_variant if variant == "inplace" else op.op
        self._inputs = len(self.tensors)
        self._out_spec: Any = None
        self.result_spec: Any = None
        self.constants: dict[int, Any] = {}

    def add_out(self, result: Any) -> None:
        leaves, self._out_spec = pytree.tree_flatten(result)
        self.tensors = [*self.tensors, *_fill(leaves)]

    def whole(self, *tensors: Any) -> Any:
        """The result as the operator gives it. Non-tensor arguments may have been widened: see `wide`."""
        return self._run(self._leaves, tensors)

    def _run(self, constants: list[Any], tensors: tuple[Any, ...]) -> Any:
        leaves = list(constants)
        for i, t in zip(self._where, tensors, strict=False):
            leaves[i] = t
        value, args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        if self._out_spec is not None:
            out = pytree.tree_unflatten(list(tensors[self._inputs :]), self._out_spec)
            kwargs = dict(kwargs, out=tuple(out) if isinstance(out, (list, tuple)) else out)
        return self._function(value, *args, **kwargs)

    def flat(self, *tensors: Any) -> list[Any]:
        """The tensors (and None) of the result; what else it holds is constant and kept aside."""
        leaves, self.result_spec = pytree.tree_flatten(
            self.whole(*tensors), is_leaf=lambda x: isinstance(x, torch.Size)
        )
        self.constants = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)}
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def rebuild(self, flat: Any) -> Any:
        rest = iter(flat)
        count = self.result_spec.num_leaves
        leaves = [self.constants[i] if i in self.constants else next(rest) for i in range(count)]
        return pytree.tree_unflatten(leaves, self.result_spec)


def _attempt(run: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return run(), None
    except Exception as error:
        return None, error


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _one(op: Any, sample: Any, variant: str, task: Task, outcome: Outcome) -> None:
    call = _Call(op, sample, variant)
    if variant == "out":
        _seed(task.seed)
        tensors = copies(call.tensors)
        result, error = _attempt(lambda: call.whole(*tensors))
        if error or not all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(result)):
            outcome.status = "none"
            return
        call.add_out(result)

    eager_inputs = copies(call.tensors)
    _seed(task.seed)
    before = _random_state()
    eager, eager_error = _attempt(lambda: call.whole(*eager_inputs))
    after_state = _random_state()
    random_op = not torch.equal(before, after_state)

    entry = ENTRY_POINTS[task.backend](call.flat)
    our_inputs = copies(call.tensors)
    _seed(task.seed)
    flat, our_error = _attempt(lambda: entry(*our_inputs))
    path = entry.path()
    outcome.compiled, outcome.reason = path.compiled, path.reason
    outcome.kernels, outcome.externs, outcome.recorded = path.kernels, path.externs, path.recorded

    if eager_error or our_error:
        ours = _error_text(our_error) if our_error else "no error"
        theirs = _error_text(eager_error) if eager_error else "no error"
        if ours != theirs:
            outcome.status, outcome.detail = "wrong", f"raises {ours}\neager: {theirs}"
        else:
            outcome.variant = "error"  # op_db has in-place samples that eager refuses
        return
    if random_op and not torch.equal(_random_state(), after_state):
        outcome.status, outcome.detail = "wrong", "leaves the random generator in another state than eager"
        return

    def both(*tensors: Any) -> Any:
        return call.whole(*tensors), list(tensors)

    if random_op:  # another dtype draws other numbers: eager's are the reference

        def reference() -> Any:
            return eager, list(eager_inputs)

        perturbed = []
    else:
        reference = reference_run(both, *call.tensors)
        perturbed = perturbed_runs(both, *call.tensors)
    values = op.name not in UNINITIALISED
    # A place that cannot hold float64 is no place for a float64 run: the plain variant has compared the numbers.
    found = differences((call.rebuild(flat), our_inputs), (eager, eager_inputs), reference, perturbed, values=values)
    if found:
        outcome.status, outcome.detail = "wrong", "\n".join(map(str, found))


def _describe(sample: Any) -> str:
    def one(leaf: Any) -> str:
        if not isinstance(leaf, torch.Tensor):
            return repr(leaf)
        if leaf.layout != torch.strided:
            return f"{leaf.dtype} {tuple(leaf.shape)} {leaf.layout}"
        plain = leaf.is_contiguous()
        return f"{str(leaf.dtype)[6:]}{list(leaf.shape)}" + ("" if plain else f" strides {list(leaf.stride())}")

    shown = pytree.tree_map(one, (sample.input, sample.args, sample.kwargs))
    return f"input {shown[0]}, args {shown[1]}, kwargs {shown[2]}"[:600]


def work(task: Task, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    op = op_db[task.op]
    for d, dtype_name in enumerate(task.dtypes):
        if d < task.start[0]:
            continue
        emit(("begin", (d, -1, len(VARIANTS))))
        try:
            samples = list(_samples(op, task, DTYPES[dtype_name]))
        except Exception:  # op_db itself cannot make samples of this dtype here
            continue
        emit(("count", dtype_name, len(samples)))
        for number, sample, wrong in samples:
            for v, variant in enumerate(VARIANTS):
                if (d, number, v) < task.start or variant not in task.variants:
                    continue
                if wrong != (variant == "error"):
                    continue
                if variant == "inplace" and (op.inplace_variant is None or sample.broadcasts_input):
                    continue
                if variant == "out" and not op.supports_out:
                    continue
                emit(("begin", (d, number, v)))
                outcome = Outcome(task.name, dtype_name, number, variant, "ok")
                try:
                    with torch.no_grad():
                        _one(op, sample, variant, task, outcome)
                except Exception as error:
                    outcome.status, outcome.detail = "wrong", f"the harness itself failed: {_error_text(error)}"
                if outcome.status == "none":
                    continue
                if outcome.status != "ok":
                    outcome.detail += "\n" + _describe(sample)
                emit(("outcome", outcome.as_dict()))


Program = Callable[..., list[torch.Tensor]]


def program_of(op: Any, sample: Any) -> tuple[Program, list[torch.Tensor]]:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]

    def program(*given: torch.Tensor) -> list[torch.Tensor]:
        rest = iter(given)
        x, args, kwargs = pytree.tree_unflatten(
            [next(rest) if isinstance(y, torch.Tensor) else y for y in leaves], spec
        )
        return [y for y in pytree.tree_leaves(op.op(x, *args, **kwargs)) if isinstance(y, torch.Tensor)]

    return program, tensors
