"""``vesta.compile``, with the signature and the meaning of ``torch.compile``."""

from __future__ import annotations

import functools
import inspect
import os
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import torch

from vesta.builtin_functions import NO_PYTHON, computes_tensors
from vesta.chosen_modules import check_patterns, choose_modules
from vesta.compiled_function import (
    Compiled,
    Pattern,
    RepeatedLayers,
    Settings,
    capture,
    compile_callable,
    compile_class,
)
from vesta.compiled_method import CompiledMethods, check_methods
from vesta.compiled_module import is_wrapper, make_wrapper
from vesta.eager import innermost
from vesta.errors import UserError, did_you_mean
from vesta.machine_costs import use_costs_of_machine
from vesta.options import BACKENDS, OPTION_NAMES, make_options, options_of_mode

__all__ = ["compile"]

M = TypeVar("M", bound=Callable[..., Any])


@overload
def compile(
    model: M,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "vesta",
    mode: str | None = "default",
    options: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    disable: bool = False,
    methods: Sequence[str] = (),
    only: Sequence[Pattern] | None = None,
    skip: Sequence[Pattern] = (),
) -> M: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "vesta",
    mode: str | None = "default",
    options: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    disable: bool = False,
    methods: Sequence[str] = (),
    only: Sequence[Pattern] | None = None,
    skip: Sequence[Pattern] = (),
) -> Callable[[M], M]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "vesta",
    mode: str | None = "default",
    options: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    disable: bool = False,
    methods: Sequence[str] = (),
    only: Sequence[Pattern] | None = None,
    skip: Sequence[Pattern] = (),
    **unknown: Any,
) -> Any:
    """Compiles a function, method, module or any other callable. Results stay equal, and calls get faster.

    The first call captures and compiles the program. Later calls check guards and run the compiled code. Python
    executes what cannot be captured, between the compiled parts, and what cannot be compiled runs eager.
    ``vesta.explain(compiled)(*args)`` shows the reason and the line of each. ``compile`` is also a decorator, with and
    without arguments.

    Args:
        model: What to compile. For a module, the result is another object of its class that shares its parameters,
            hooks and attributes. For a class, it is the class itself with a compiled ``__call__``. A function in C of
            torch, such as ``torch.sin``, is compiled as well; any other callable without Python code is returned
            unchanged.
        fullgraph: Raise :class:`vesta.errors.GraphBreak` at the first line that cannot be part of one graph.
        dynamic: True: sizes are symbolic from the start. False: each new size compiles again. None: a size becomes
            symbolic once it changes.
        backend: "vesta"; "cudagraphs" for calls of PyTorch's own operators only, recorded as CUDA graphs on a GPU;
            "aot_eager" for the same calls one by one; or "eager" for ``model`` unchanged.
        mode: One of torch.compile's modes, which differ on GPUs only. ``mode`` and ``options`` exclude each other.
        options: See :mod:`vesta.options`.
        strategy: "whole", the default: graphs are compiled to machine code. "regional": so is each of the layers of
            which the model has several of one class in a ``ModuleList`` or ``Sequential``, as a graph of its own;
            everything around them runs in Python. "calls": each operator is a call into ATen, and results equal
            eager's bit for bit (``backend="aot_eager"``). "eager": ``model`` unchanged. "auto": for each graph
            "whole", "calls" or "eager", whichever is predicted to take the least time, its compile included, over
            ``expected_calls`` calls (an option; 1000). The first two calls then run uncompiled. The prediction is
            shown by :func:`vesta.explain`, beside what came of it.
        disable: Return ``model`` unchanged. ``TORCH_COMPILE_DISABLE=1`` in the environment does so everywhere.
        methods: Names of a module's methods that are compiled where they are called, as in
            ``vesta.compile(model, methods=("encode", "decode"))``. A call of the module, ``forward`` and Lightning's
            steps (``training_step``, ...) are always compiled. Other methods run in Python, and their ``self(...)`` is
            compiled.
        only: The submodules that are compiled, by name, such as ``["layers.*.mlp", "head"]``, or by class; everything
            around them runs in Python. ``*`` stands for any part of a name between dots, ``**`` for any number of
            parts. Modules are known by identity: one that is put in the place of another later is not meant.
        skip: The submodules that run in Python, in the same form. A call of one is a graph break.

    Raises:
        vesta.errors.UserError: An argument has an unknown name or value; the message suggests the nearest one.

    Example::

        @vesta.compile
        def f(x, y):
            return torch.sin(x) + torch.cos(y)
    """
    settings = check(fullgraph, dynamic, backend, mode, options, strategy, disable, methods, only, skip, unknown)
    if model is None:
        return functools.partial(compile_with, settings, methods)
    return compile_with(settings, methods, model)


def compile_with(settings: Settings | None, methods: Sequence[str], model: Any) -> Any:
    """``model`` compiled, or ``model`` itself if there are no settings or it is a function in C that is not torch's."""
    if methods:
        check_methods(innermost(model), methods)
    if isinstance(model, staticmethod | classmethod):
        return type(model)(compile_with(settings, (), model.__func__))
    if not callable(model):
        hint = "; put @vesta.compile below @property" if isinstance(model, property) else ""
        raise UserError(f"vesta.compile takes a function, method, module or class, not {type(model).__name__}{hint}")
    if settings is None or (isinstance(model, NO_PYTHON) and not computes_tensors(model)):
        return model
    if settings_of(model) == settings:
        return model
    original = innermost(model)
    settings = choose_modules(settings, original)
    if isinstance(original, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return scripted(original, settings)
    if isinstance(original, torch.nn.Module):
        return make_wrapper(original, capture(original, settings), settings, CompiledMethods(settings, is_plain))
    if isinstance(original, type):
        return compile_class(original, settings)
    return compile_callable(original, settings)


def is_plain(function: Any) -> bool:
    """Whether ``function`` is Python code that is neither compiled nor disabled."""
    return callable(function) and not isinstance(function, NO_PYTHON) and innermost(function) is function


def arguments_like(model: Any) -> dict[str, Any]:
    """The arguments of :func:`compile` with which ``model`` was compiled, for another compile; none if it was not."""
    settings = settings_of(model)
    if settings is None:
        return {}
    options = {name: getattr(settings.options, name) for name in OPTION_NAMES}
    chosen = {"strategy": "regional"} if settings.only == (RepeatedLayers,) else {"only": settings.only}
    return {"options": options, **chosen, "skip": settings.skip}


def settings_of(model: Any) -> Any:
    if isinstance(model, types.MethodType):
        model = model.__func__
    return model._vesta_settings if isinstance(model, Compiled) or is_wrapper(model) else None


def scripted(model: Any, settings: Settings) -> Any:
    what = f"{type(model).__name__} is TorchScript, which Vesta does not compile"
    if settings.fullgraph:
        raise UserError(f"{what}; compile the original module or function instead")
    warnings.warn(f"{what}; it runs uncompiled. Compile the original module or function instead.", stacklevel=4)
    return model


def check(
    fullgraph: Any,
    dynamic: Any,
    backend: Any,
    mode: Any,
    options: Any,
    strategy: Any,
    disable: Any,
    methods: Any,
    only: Any,
    skip: Any,
    unknown: Mapping[str, Any],
) -> Settings | None:
    """The settings for the arguments of :func:`compile`; None if they turn compiling off."""
    for name in unknown:
        raise UserError(f'vesta.compile has no argument "{name}"{instead_of(name)}')
    for name, value in (("fullgraph", fullgraph), ("disable", disable)):
        if not isinstance(value, bool):
            raise UserError(f"{name} takes True or False, not {value!r}")
    if not isinstance(dynamic, bool | None):
        raise UserError(f"dynamic takes True, False or None, not {dynamic!r}")
    of_backend = options_of_backend(backend)
    of_mode = options_of_mode(mode)
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not all(isinstance(n, str) for n in methods):
        raise UserError(f"methods takes a tuple of method names, not {methods!r}")
    if not isinstance(options, Mapping | None):
        raise UserError(f"options takes a dict, not {options!r}")
    if options and mode not in (None, "default"):
        raise UserError(f'mode and options exclude each other (mode is "{mode}")')
    options = {**of_mode, **(options or {})}
    for name, value in of_backend.items():
        if options.setdefault(name, value) is not value:
            given = f"{'mode' if name in of_mode else 'options'} asks for {name}={options[name]!r}"
            raise UserError(f'backend "{backend}" means {name}={value}, but {given}; give only one of them')
    if dynamic is not None and options.setdefault("dynamic", dynamic) is not dynamic:
        raise UserError(f'dynamic={dynamic}, but options has "dynamic": {options["dynamic"]!r}; give only one of them')
    for name, value in options_of_strategy(strategy).items():
        if options.setdefault(name, value) != value:
            raise UserError(f'strategy="{strategy}" means {name}={value!r}, but options has {name}={options[name]!r}')
    if strategy == "regional" and only is not None:
        raise UserError('strategy="regional" chooses the modules that are compiled, so it excludes only=[...]')
    made = make_options(options)
    if made.strategy == "auto":
        use_costs_of_machine()
    if disable or "eager" in (backend, strategy) or os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return None
    return Settings(
        fullgraph,
        repr((fullgraph, sorted(options.items()))),
        tuple(sorted(set(methods))),
        made,
        (RepeatedLayers,) if strategy == "regional" else None if only is None else check_patterns("only", only),
        check_patterns("skip", skip),
    )


def options_of_backend(backend: Any) -> dict[str, Any]:
    """The options that a backend stands for. Raises :class:`vesta.errors.UserError` for an unknown one."""
    if not isinstance(backend, str):
        raise UserError(f"backend takes a name, not {backend!r}; use torch.compile(model, backend=...)")
    if backend not in BACKENDS and backend != "eager":
        known = (*BACKENDS, "eager")
        names = ", ".join(f'"{name}"' for name in known)
        raise UserError(
            f'vesta.compile knows the backends {names}, not "{backend}"{did_you_mean(backend, known)}; '
            f'for another one use torch.compile(model, backend="{backend}")'
        )
    return BACKENDS.get(backend, {})


STRATEGIES: dict[str, dict[str, Any]] = {
    "whole": {"strategy": "whole"},
    "regional": {"strategy": "whole"},
    "calls": {"kernels": False},
    "eager": {},
    "auto": {"strategy": "auto"},
}


def options_of_strategy(strategy: Any) -> dict[str, Any]:
    """The options that a strategy stands for. Raises :class:`vesta.errors.UserError` for an unknown one."""
    if strategy is None:
        return {}
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        known = ", ".join(f'"{name}"' for name in STRATEGIES)
        raise UserError(f"strategy takes {known}, not {strategy!r}{did_you_mean(str(strategy), STRATEGIES)}")
    return STRATEGIES[strategy]


def instead_of(name: str) -> str:
    """The end of the message about an unknown argument: what to write instead."""
    if name in ("recompile_limit", "cache_size_limit"):
        return '; use options={"variant_limit": ...}'
    if name in OPTION_NAMES:
        return f'; use options={{"{name}": ...}}'
    known = [n for n in inspect.signature(compile).parameters if n != "model"]
    return did_you_mean(name, known, everything=f"it has {', '.join(known)}")


# Help and editors show the signature without **unknown, which exists for the error message.
compile.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [p for p in inspect.signature(compile).parameters.values() if p.kind is not p.VAR_KEYWORD]
)
