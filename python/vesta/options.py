"""The options of a compile, for ``vesta.compile(model, options={...})`` and ``torch.compile(model, backend="vesta",
options={...})``.

Names and meaning are those of ``include/vesta/options.h``. The default is in parentheses:

``dynamic`` (bool or None; None)
    True: every size is symbolic. False: no size is. None: a size becomes symbolic once it changes.
``strict`` (bool; False)
    Raise an error instead of running eager.
``deadline_ms`` (int; 10000)
    How many milliseconds one call waits for compiles and packs weights, of all its parts together. A call whose time is
    up runs eager. A compile that has a graph ends in the background, and later calls use it. A trace that has not
    ended after four fifths of the time is given up, and later calls try again, three times in all. A function of
    :func:`vesta.compile` tries again whenever its calls have doubled since. :func:`vesta.explain` names a deadline that
    would be enough. -1: no bound. Calls always wait for compiles with ``autotune_seconds``. Where
    ``torch.compile`` records gradients, nothing can stop PyTorch's AOTAutograd, which is Python. Without this option,
    ``VESTA_DEADLINE_MS`` in the environment.
``compile_memory`` (int; -1)
    How many bytes all compiles of the process may take together, besides what calls take: an eighth for graphs, three
    eighths for plans, a half for code generation. A compile that does not fit waits for others. A kernel whose
    estimate does not fit is compiled in a process of its own, which has these bytes and a minute. A compile that is
    too large alone is given up: the functions that it calls are compiled apart, or its calls run eager, and
    :func:`vesta.explain` says how much would be enough. The bytes are upper estimates. -1: a quarter of the memory
    that the process may use. What AOTAutograd takes is not counted.
    Without this option, ``VESTA_COMPILE_MEMORY`` in the environment.
``background`` (bool; False)
    True: no call waits for a compile that has a graph, or while many weights are packed; calls run eager until both
    have ended in the background. :func:`vesta.wait` waits for it.
``strategy`` ("whole" or "auto"; "whole")
    "auto": a graph is compiled to machine code only if that is predicted to save time over ``expected_calls`` calls;
    otherwise it runs as calls into ATen, or the program runs eager. The argument ``strategy`` of :func:`vesta.compile`
    describes it. The graphs of ``torch.compile`` are compiled in any case.
``expected_calls`` (int; 1000)
    How many calls of each graph ``strategy="auto"`` expects.
``only_if_faster`` (bool; True)
    Calls run uncompiled if measurements show that this is faster. For a measurement, compiled and uncompiled calls take
    turns, from the 17th call on; one uncompiled call ends it if a call takes a millisecond or more, and half as much
    time again uncompiled. Calls whose arguments differ in type or size are measured apart, and so are the parts of a
    call between graph breaks, from the fifth run on. Functions with ``fullgraph``
    or ``strict``, and those that use a GPU, are not measured. False: measure none.
``packed_weights`` (bool, int or None; None)
    Upper bound in bytes for each graph's copies of weights: packed, folded into another operator, laid out in another
    order, or put side by side. True: no bound. False: make none. None: like True on a CPU, but for weights of products,
    of which at most 512 MiB are packed, and like False on a GPU, where a model then takes no more memory than eager. On
    a CPU, a packed weight makes a product of 64 rows 15 % faster, and of 128 rows 7 %. On a GPU, copies make
    convolutions faster whose weights are not in channels-last order, and several small products of one input.
``numerics`` ("fast" or "eager"; "fast")
    "eager" rounds half-precision values wherever eager does.
``variant_limit`` (int; 16)
    Upper bound for compiled variants of one function. Beyond it, new shapes run eager.
``recompile_share`` (float; 0.2)
    Upper bound for the time that recompiles take, as a share of the time that the function's calls take. Not counted:
    twice the time of the first compiles, and at least 2 seconds. A call whose compile would exceed the bound runs
    eager; a later one compiles, when calls have taken enough time. Negative: no bound. There is none with
    ``fullgraph`` or ``strict``, for compiles of :func:`vesta.warm`, and for the graphs of ``torch.compile``, whose
    recompiles Dynamo decides.
``skip_passes`` (list of str; [])
    Graph passes to leave out, by name (:func:`vesta.passes` lists them). ``layers``, the first, plans one of several
    equal layers of a model and repeats its steps for the others.
``rewrite_limit`` (int; -1)
    Run only the first n rewrites of all passes together, to bisect a wrong rewrite. -1: all.
``compile_threads`` (int; 0)
    Threads that compile kernels. 0: one for each core.
``kernels`` (bool; True)
    False: every operator is a call of PyTorch's own, as the program made it, and results equal eager's bit for bit.
``activation_memory`` (float, int or None; None)
    Upper bound for what a compiled function saves for its backward pass: as a float from 0 to 1, the fraction of what
    eager saves; as an int, bytes. The backward pass computes the rest again. Random numbers are saved in any case, and
    so are results of operators that Vesta does not know; where the bound cannot be reached, as little is saved as
    possible, and :func:`vesta.explain` says so. None: at most what eager saves, and nothing is computed again that
    takes longer than to load it. Where AOTAutograd splits a program into its halves, as in ``torch.compile``, it also
    decides what is saved, and this option has no effect.
``cuda_graphs`` (bool; True)
    On a GPU: record calls into CUDA graphs where possible, at the second call with the same sizes on a stream.
``copied_inputs`` (int; 1 MiB)
    Largest input in bytes that is copied into a CUDA graph's memory, if a library call reads it and its address differs
    from the recorded one. -1: no bound.
``cuda_graph_memory`` (int; -1)
    Upper bound in bytes for all CUDA graphs of the process and their memory. -1: a quarter of the GPU's memory.
``autotune_seconds`` (float; 0)
    Seconds that a compile may spend to measure alternative schedules of its kernels and choose the fastest. On a CPU
    these are other tiles and blocks of products, and shorter vectors of other kernels. The device should do nothing
    else meanwhile. The cache keeps the choices. 0: measure none. The modes ``"max-autotune..."`` set 10.
``cache`` (bool; True)
    Read and write compiled code in the cache that processes share: ``$VESTA_CACHE_DIR``, by default the user's cache
    folder. If ``VESTA_CACHE_DIR`` is set to nothing, there is no cache.
``dump_dir`` (str; "")
    Write graphs, plans and code of each compile to this folder (also ``$VESTA_DUMP``).

In the environment, for the whole process: ``VESTA_GIL_HOLD=0`` leaves PyTorch's library as it is loaded. By default
Vesta redirects the two functions of Python by which PyTorch releases the GIL, so that no other thread sees what a trace
writes and undoes. With ``0``, a trace ends before an operator that follows a write to an object from outside (the graph
break ``operator-after-write``): the results are the same, and such programs have more graphs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from vesta import _C
from vesta.errors import UserError, did_you_mean

__all__ = ["OPTION_NAMES", "make_options", "options_of_mode"]

# Backends, named like those of torch.compile, as options.
BACKENDS: dict[str, dict[str, Any]] = {
    "vesta": {},
    "cudagraphs": {"kernels": False, "cuda_graphs": True},
    "aot_eager": {"kernels": False, "cuda_graphs": False},
}

# torch.compile's modes, as options. On CPUs, those that measure differ from the others.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"copied_inputs": -1},
    "max-autotune": {"copied_inputs": -1, "autotune_seconds": 10},
    "max-autotune-no-cudagraphs": {"cuda_graphs": False, "autotune_seconds": 10},
}

OPTION_NAMES: dict[str, tuple[type, ...]] = {
    "dynamic": (bool, type(None)),
    "strict": (bool,),
    "deadline_ms": (int,),
    "compile_memory": (int,),
    "background": (bool,),
    "strategy": (str,),
    "expected_calls": (int,),
    "only_if_faster": (bool,),
    "recompile_share": (int, float),
    "packed_weights": (bool, int, type(None)),
    "numerics": (str,),
    "variant_limit": (int,),
    "skip_passes": (list, tuple),
    "rewrite_limit": (int,),
    "compile_threads": (int,),
    "kernels": (bool,),
    "activation_memory": (float, int, type(None)),
    "cuda_graphs": (bool,),
    "copied_inputs": (int,),
    "cuda_graph_memory": (int,),
    "autotune_seconds": (int, float),
    "cache": (bool,),
    "dump_dir": (str,),
}


def options_of_mode(mode: Any) -> dict[str, Any]:
    """The options that a mode of torch.compile means. Raises :class:`vesta.errors.UserError` for an unknown one."""
    if mode is None:
        mode = "default"
    if not isinstance(mode, str) or mode not in MODES:
        hint = did_you_mean(str(mode), MODES)
        raise UserError(f"unknown mode {mode!r}{hint}; the modes are {', '.join(MODES)}")
    return dict(MODES[mode])


# Options that the environment sets for a whole process, with what they take.
BOUNDS: dict[str, tuple[str, str]] = {
    "deadline_ms": ("VESTA_DEADLINE_MS", "milliseconds, or -1 for no bound"),
    "compile_memory": ("VESTA_COMPILE_MEMORY", "bytes, or -1 for a quarter of the memory"),
}


def _bound_of_environment(name: str, default: int) -> int:
    variable, takes = BOUNDS[name]
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.lstrip("-").isdecimal() or int(text) < -1:
        raise UserError(f"{variable} takes {takes}, not {text!r}")
    return int(text)


def make_options(options: Mapping[str, Any] | None = None) -> _C.Options:
    """The options as a native object.

    Raises :class:`vesta.errors.UserError` for an unknown name (suggesting the nearest known one) or a wrong value.
    """
    out = _C.Options()
    for name in BOUNDS:
        setattr(out, name, _bound_of_environment(name, getattr(out, name)))
    for name, value in (options or {}).items():
        if name not in OPTION_NAMES:
            hint = did_you_mean(str(name), OPTION_NAMES, everything=f"the options are {', '.join(OPTION_NAMES)}")
            raise UserError(f'unknown option "{name}"{hint}')
        types = OPTION_NAMES[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            wanted = " or ".join("None" if t is type(None) else t.__name__ for t in types)
            raise UserError(f'option "{name}" takes {wanted}, not {value!r}')
        if name in BOUNDS and isinstance(value, int) and value < -1:
            raise UserError(f'option "{name}" takes {BOUNDS[name][1]}, not {value!r}')
        if name == "packed_weights":
            if value is None:
                value = -1
            elif isinstance(value, bool):
                value = sys.maxsize if value else 0
        if name == "strategy" and value not in ("whole", "auto"):
            raise UserError(f'option "strategy" takes "whole" or "auto", not {value!r}')
        if name == "expected_calls" and value < 1:
            raise UserError(f'option "expected_calls" takes 1 or more calls, not {value!r}')
        most = 1 if isinstance(value, float) else sys.maxsize
        if name == "activation_memory" and value is not None and not 0 <= value <= most:
            raise UserError(f'option "activation_memory" takes a fraction from 0.0 to 1.0 or bytes, not {value!r}')
        if name == "numerics" and value not in ("fast", "eager"):
            raise UserError(f'option "numerics" takes "fast" or "eager", not {value!r}')
        if name == "skip_passes":
            for skipped in value:
                if skipped not in _C.passes():
                    hint = did_you_mean(str(skipped), _C.passes(), everything="vesta.passes() lists them")
                    raise UserError(f"unknown pass {skipped!r}{hint}")
        setattr(out, name, list(value) if name == "skip_passes" else value)
    return out
