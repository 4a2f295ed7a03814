"""Options of a compile, as ``vesta.compile(model, options={...})`` and ``torch.compile(model, backend="vesta",
options={...})`` take them.

Names and meaning are those of ``include/vesta/options.h``:

``dynamic`` (bool or None)
    True: every size is symbolic. False: never. None: a size that is seen to change becomes symbolic.
``strict`` (bool)
    Raise what would otherwise run eager.
``packed_weights`` (bool or int)
    Bytes that packed or folded copies of weights may take: False is none, True is no bound.
``numerics`` ("fast" or "eager")
    "eager" rounds half-precision values wherever eager does.
``variant_limit`` (int)
    Compiled variants of one function before new shapes run eager.
``skip_passes`` (list of str)
    Graph passes to leave out, by name (:func:`vesta.passes` lists them).
``rewrite_limit`` (int)
    Run only the first n rewrites of all passes together (-1: all), to bisect a wrong one.
``compile_threads`` (int)
    Threads that compile kernels (0: all cores).
``kernels`` (bool)
    False: every operator is a call of PyTorch's own, as the program made it, and results equal eager's bit for bit.
``cuda_graphs`` (bool)
    On a GPU, record calls into CUDA graphs: the second one with the same sizes on a stream, where that is possible.
``copied_inputs`` (int)
    Bytes up to which an input is copied into a CUDA graph's memory where a library call reads it and it lies at another
    address than before (-1: without bound; 1 MiB).
``cuda_graph_memory`` (int)
    Bytes that all CUDA graphs of the process and their memory may take (-1: a quarter of the GPU's memory).
``autotune_seconds`` (float)
    On a GPU: seconds that a compile may take to measure other schedules of its kernels and to choose the fastest (0:
    none; 10 in the modes ``"max-autotune"``).
``cache`` (bool)
    Read compiled kernels from the cache that processes share, and write them: in ``$VESTA_CACHE_DIR``, by default the
    user's folder for caches; none where ``VESTA_CACHE_DIR`` is empty.
``dump_dir`` (str)
    A folder for graphs, plans and code of each compile (also ``$VESTA_DUMP``).

In the environment, for the whole process: ``VESTA_GIL_HOLD=0`` leaves PyTorch's library as it is loaded. By default
Vesta redirects the two functions of Python by which PyTorch releases the GIL, so that no other thread sees what a trace
writes and undoes. With ``0``, a trace ends before an operator that follows a write to an object from outside (the graph
break ``operator-after-write``): results are the same, and such programs have more graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vesta import _C
from vesta.errors import UserError, did_you_mean

__all__ = ["OPTION_NAMES", "make_options", "options_of_mode"]

# Backends by the names that torch.compile's have, as options.
BACKENDS: dict[str, dict[str, Any]] = {
    "vesta": {},
    "cudagraphs": {"kernels": False, "cuda_graphs": True},
    "aot_eager": {"kernels": False, "cuda_graphs": False},
}

# torch.compile's modes, as options. They differ on GPUs.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"copied_inputs": -1},
    "max-autotune": {"copied_inputs": -1, "autotune_seconds": 10},
    "max-autotune-no-cudagraphs": {"cuda_graphs": False, "autotune_seconds": 10},
}

OPTION_NAMES: dict[str, tuple[type, ...]] = {
    "dynamic": (bool, type(None)),
    "strict": (bool,),
    "packed_weights": (bool, int),
    "numerics": (str,),
    "variant_limit": (int,),
    "skip_passes": (list, tuple),
    "rewrite_limit": (int,),
    "compile_threads": (int,),
    "kernels": (bool,),
    "cuda_graphs": (bool,),
    "copied_inputs": (int,),
    "cuda_graph_memory": (int,),
    "autotune_seconds": (int, float),
    "cache": (bool,),
    "dump_dir": (str,),
}


def options_of_mode(mode: Any) -> dict[str, Any]:
    """What a mode of torch.compile stands for. Raises :class:`vesta.errors.UserError` for an unknown one."""
    if mode is None:
        mode = "default"
    if not isinstance(mode, str) or mode not in MODES:
        hint = did_you_mean(str(mode), MODES)
        raise UserError(f"unknown mode {mode!r}{hint}; modes are {', '.join(MODES)}")
    return dict(MODES[mode])


def make_options(options: Mapping[str, Any] | None = None) -> _C.Options:
    """The options as the compiler takes them.

    Raises :class:`vesta.errors.UserError` for an unknown name (with the nearest known one) or a value of a wrong type.
    """
    out = _C.Options()
    for name, value in (options or {}).items():
        if name not in OPTION_NAMES:
            hint = did_you_mean(str(name), OPTION_NAMES, everything=f"known options: {', '.join(OPTION_NAMES)}")
            raise UserError(f'unknown option "{name}"{hint}')
        types = OPTION_NAMES[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            wanted = " or ".join("None" if t is type(None) else t.__name__ for t in types)
            raise UserError(f'option "{name}" takes {wanted}, not {value!r}')
        if name == "packed_weights" and isinstance(value, bool):
            value = -1 if value else 0
        if name == "numerics" and value not in ("fast", "eager"):
            raise UserError(f'option "numerics" is "fast" or "eager", not {value!r}')
        if name == "skip_passes":
            for skipped in value:
                if skipped not in _C.passes():
                    hint = did_you_mean(str(skipped), _C.passes(), everything="vesta.passes() lists them")
                    raise UserError(f"unknown pass {skipped!r}{hint}")
        setattr(out, name, list(value) if name == "skip_passes" else value)
    return out
