"""Programs that are bad for compilers: breaks in every line, new shapes, closures and objects in each call, exceptions
as control flow. Each is a function that makes the next call's arguments out of its number, and the program."""

from __future__ import annotations

import functools
import itertools
import math
import random
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

SMALL = torch.linspace(-1, 1, 16).reshape(4, 4)


@dataclass(frozen=True)
class Hostile:
    program: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]


HOSTILE: dict[str, Hostile] = {}


def hostile(arguments: Callable[[int], tuple[Any, ...]] = lambda n: (SMALL,)) -> Callable[[Any], Any]:
    def add(program: Any) -> Any:
        HOSTILE[program.__name__] = Hostile(program, arguments)
        return program

    return add


@hostile()
def a_break_in_every_line(x):
    print(end="")
    x = x + 1
    print(end="")
    x = x * 2
    print(end="")
    x = x - x.mean()
    print(end="")
    x = x.relu()
    print(end="")
    return x


@hostile(lambda n: (torch.ones(n + 1, 3),))
def a_new_shape_in_each_call(x):
    return (x * 2 + 1).sum(0) / x.shape[0]


@hostile(lambda n: (torch.ones([1 + (n + i) % 5 for i in range(1 + n % 4)]),))
def a_new_rank_in_each_call(x):
    for dim in range(x.dim()):
        x = x + x.sum(dim, keepdim=True)
    return x


@hostile(lambda n: (SMALL, lambda t: t * n))
def a_new_closure_in_each_call(x, f):
    return f(x + 1) + f(x - 1)


@hostile(lambda n: (SMALL, n))
def a_new_number_in_each_call(x, n):
    return x * n if n % 3 else x + n


@hostile(lambda n: (SMALL, f"key {n}"))
def a_new_string_in_each_call(x, name):
    return {name: x + len(name), name.upper(): x * 2}


@hostile(lambda n: (SMALL, 1 + n % 24))
def a_loop_of_another_length(x, n):
    for _ in range(n):
        x = torch.sin(x) + 1
    return x


@hostile(lambda n: (SMALL, {f"k{i}": i for i in range(n % 30)}))
def a_dict_of_other_keys(x, d):
    for k, v in d.items():
        x = x + (v if k.endswith("1") else 1)
    return x


@hostile(lambda n: (SMALL, [SMALL] * (n % 20)))
def a_list_of_another_length(x, parts):
    return torch.stack([x, *parts]).sum(0)


@hostile()
def huge_constants(x):
    return x + len(str(7**2000)) + (3**500) % 1000 + sum(range(1000))


@hostile(lambda n: (SMALL, 40))
def deep_recursion(x, depth):
    if depth == 0:
        return x
    y = deep_recursion(x, depth - 1)
    print(end="")
    return y + 1


@hostile()
def exceptions_as_control_flow(x):
    out = []
    for i in range(8):
        try:
            if i % 2:
                raise KeyError(i)
            out.append(x + i)
        except KeyError as error:
            out.append(x * error.args[0])
    return sum(out)


@hostile()
def exceptions_of_operators(x):
    out = x
    for i in range(6):
        try:
            out = out + x[i]
        except IndexError:
            out = out * 2
    return out


@hostile()
def values_of_tensors(x):
    for _ in range(8):
        x = x * 2 if float(x.sum()) < 10 else x / 3
    return x


@hostile()
def values_into_lists(x):
    rows = x.tolist()
    return torch.tensor([[math.sin(v) for v in row] for row in rows])


@hostile()
def one_element_after_another(x):
    out = torch.zeros_like(x)
    for i in range(4):
        for j in range(4):
            out[i, j] = x[j, i].item() + 1
    return out


@hostile()
def random_decisions(x):
    for _ in range(6):
        x = x + 1 if random.random() < 0.5 else x * 1
    return x * 0


@hostile()
def generators(x):
    def parts() -> Iterator[torch.Tensor]:
        for i in range(6):
            print(end="")
            yield x + i

    return sum(parts(), x)


@hostile(lambda n: (SMALL, iter(range(10))))
def iterators_from_outside(x, numbers):
    for n in itertools.islice(numbers, 5):
        x = x + n
    return x


@contextmanager
def scope(log: list[int]) -> Iterator[None]:
    log.append(1)
    try:
        yield
    finally:
        log.pop()


@hostile()
def context_managers(x):
    log: list[int] = []
    for _ in range(5):
        with scope(log):
            x = x + len(log)
            print(end="")
    return x


@dataclass
class State:
    steps: int = 0
    history: list[Any] = field(default_factory=list)
    last: Any = None


STATE = State()


@hostile()
def state_that_grows(x):
    STATE.steps += 1
    STATE.history.append(STATE.steps)
    STATE.last = x + STATE.steps % 2
    return STATE.last + len(STATE.history) % 3


WINDOW: deque[Any] = deque(maxlen=5)


@hostile()
def a_window_of_results(x):
    WINDOW.append(x + len(WINDOW))
    return sum(WINDOW, x)


@hostile()
def a_class_made_in_the_call(x):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def both(self):
            return self.a + self.b

    return Pair(x, x * 2).both()


@hostile()
def weak_references(x):
    kept = x + 1
    reference = weakref.ref(kept)
    print(end="")
    return reference() + kept


CACHE: dict[int, Any] = {}


@functools.lru_cache(maxsize=4)
def cached(n: int) -> torch.Tensor:
    return SMALL * n


@hostile(lambda n: (SMALL, n % 9))
def caches_that_miss(x, n):
    CACHE.setdefault(n, x + n)
    return CACHE[n] + cached(n)


@hostile(lambda n: (nn.Linear(4, 4), SMALL))
def a_new_module_in_each_call(model, x):
    return model(x) * 0


@hostile(lambda n: (SMALL, [torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64][n % 5]))
def another_dtype_in_each_call(x, dtype):
    return (x.to(dtype) + x.to(dtype)).sum()


@hostile()
def sizes_out_of_values(x):
    for _ in range(4):
        rows = torch.nonzero(x > 0)
        x = x + rows.shape[0] / 16
    return x


@hostile(lambda n: (SMALL, n))
def globals_that_change(x, n):
    global COUNTER
    COUNTER = n
    return x + COUNTER


COUNTER = 0


PARAMETERS = [nn.Parameter(torch.ones(3, 3)) for _ in range(6)]
for _parameter in PARAMETERS:
    _parameter.grad = torch.ones(3, 3)
OPTIMIZER = torch.optim.Adam(PARAMETERS, lr=0.0)


@hostile()
def a_step_of_an_optimizer(x):
    OPTIMIZER.step()
    return PARAMETERS[0].detach() + 0 * x[:3, :3]
