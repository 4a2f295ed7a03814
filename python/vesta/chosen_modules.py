"""Which modules of a model are compiled: ``vesta.compile(model, only=[...], skip=[...])``."""

from __future__ import annotations

import difflib
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import torch

from vesta.compiled_function import NamedModules, Pattern, RepeatedLayers, Settings
from vesta.eager import innermost
from vesta.errors import UserError

__all__ = ["check_patterns", "choose_modules"]


def check_patterns(argument: str, patterns: Any) -> tuple[Pattern, ...]:
    """``patterns`` as given for the argument ``only`` or ``skip``."""
    if isinstance(patterns, str) or not isinstance(patterns, Sequence):
        raise UserError(f"{argument} takes a list of module names and classes, not {patterns!r}")
    for p in patterns:
        if not (isinstance(p, str) and p) and not (isinstance(p, type) and issubclass(p, torch.nn.Module)):
            raise UserError(
                f'{argument} takes names of modules, such as "layers.*.mlp", and classes of modules, not {p!r}'
            )
    return tuple(patterns)


def choose_modules(settings: Settings, compiled: Any) -> Settings:
    """The settings for ``compiled``, with the modules that ``only`` and ``skip`` name in it.

    Raises :class:`vesta.errors.UserError` for a name or class that no submodule has.
    """
    if settings.only is None and not settings.skip:
        return settings
    model = compiled.__self__ if isinstance(compiled, types.MethodType) else compiled
    regional = settings.only == (RepeatedLayers,)
    if not isinstance(model, torch.nn.Module):
        what = type(model).__name__
        if regional:
            raise UserError(f'strategy="regional" is for modules and their methods, not for {what}')
        raise UserError(f"only and skip are for modules and their methods, not for {what}")
    if settings.only == ():
        raise UserError("only is empty, so nothing would be compiled; leave it out, or use disable=True")
    named = list(submodules(model))
    skipped = matching(named, settings.skip, "skip", model)
    inside = {id(part) for module, _ in skipped for part in module.modules()}
    if regional:
        fitting = repeated_layers(model, named)
    else:
        patterns = [p for p in settings.only or () if isinstance(p, str) or issubclass(p, torch.nn.Module)]
        fitting = matching(named, patterns, "only", model)
    only = [(m, n) for m, n in fitting if id(m) not in inside]
    if settings.only and not only:
        raise UserError("skip names every module that is chosen, so nothing would be compiled")
    return replace(settings, chosen=(tuple(only), tuple(skipped)))


def submodules(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str]]:
    """Each module inside of ``model`` with each of its names. Compiled ones stand for their originals."""
    for name, module in model.named_modules(remove_duplicate=False):
        if name:
            yield innermost(module), name


def repeated_layers(model: torch.nn.Module, named: Sequence[tuple[torch.nn.Module, str]]) -> NamedModules:
    """The modules with submodules of which a list of modules has several of one class, each with its first name. Lists
    inside of such a module do not count."""
    names: dict[int, str] = {}
    for module, name in named:
        names.setdefault(id(module), name)
    found: dict[int, tuple[torch.nn.Module, str]] = {}
    inside: set[int] = set()
    for holder in (model, *(module for module, _ in named)):
        if not isinstance(holder, torch.nn.ModuleList | torch.nn.Sequential) or id(holder) in inside:
            continue
        items = [innermost(item) for item in holder]
        classes = Counter(type(item) for item in items)
        for item in items:
            if classes[type(item)] > 1 and any(True for _ in item.children()):
                found.setdefault(id(item), (item, names[id(item)]))
                inside.update(id(part) for part in item.modules())
    if not found:
        raise UserError(
            f'strategy="regional" finds no list with several layers of one class in {type(model).__name__}; '
            "name the modules to compile with only=[...]"
        )
    return tuple(found.values())


def matching(
    named: Sequence[tuple[torch.nn.Module, str]], patterns: Sequence[Pattern], argument: str, model: torch.nn.Module
) -> NamedModules:
    """The modules that fit one of the patterns, each with its first name."""
    found: dict[int, tuple[torch.nn.Module, str]] = {}
    for p in patterns:
        fitting = [(module, name) for module, name in named if fits(module, name, p)]
        if not fitting:
            raise UserError(unknown(p, named, argument, model))
        for module, name in fitting:
            found.setdefault(id(module), (module, name))
    return tuple(found.values())


def fits(module: torch.nn.Module, name: str, pattern: Pattern) -> bool:
    return fits_name(name.split("."), pattern.split(".")) if isinstance(pattern, str) else isinstance(module, pattern)


def fits_name(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Part by part, with the wildcards of :mod:`fnmatch` in each; ``**`` stands for any number of parts."""
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(fits_name(name[i:], pattern[1:]) for i in range(len(name) + 1))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and fits_name(name[1:], pattern[1:])


def unknown(
    pattern: Pattern, named: Sequence[tuple[torch.nn.Module, str]], argument: str, model: torch.nn.Module
) -> str:
    owner = type(model).__qualname__
    if isinstance(pattern, type):
        what, wanted = f"no module of class {pattern.__qualname__}", pattern.__qualname__
        known = sorted({type(module).__qualname__ for module, _ in named})
    else:
        what, wanted = f'no module named "{pattern}"', pattern
        known = [name for _, name in named]
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5) or known[:3]
    shown = ", ".join(f'"{name}"' if isinstance(pattern, str) else name for name in near)
    return f"{argument}: {owner} has {what}" + (f"; the nearest are {shown}" if shown else "")
