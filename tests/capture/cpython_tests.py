"""CPython's own tests with every test method compiled.

    python -m tests.capture.cpython_tests                                the default files
    python -m tests.capture.cpython_tests --file test_with --file test_descr
    python -m tests.capture.cpython_tests --file test_with --test '*nested*' --verbose
    python -m tests.capture.cpython_tests --more                         and the files about what Python code can see
    python -m tests.capture.cpython_tests --list

Each test runs plain and compiled, in processes of their own; one that passes plain and not compiled is a failure. The
functions that doctests define are compiled too. The tests are those of the interpreter that runs this.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import fnmatch
import functools
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from tests import isolation
from tests.capture.semantics import resolve

# fmt: off
FILES = [
    "test_grammar", "test_generators", "test_generator_stop", "test_with", "test_exceptions", "test_baseexception",
    "test_exception_group", "test_except_star", "test_exception_variations", "test_raise", "test_listcomps",
    "test_setcomps", "test_dictcomps", "test_genexps", "test_super", "test_descr", "test_descrtut", "test_scope",
    "test_functools", "test_unpack", "test_unpack_ex", "test_patma", "test_fstring", "test_dataclasses", "test_enum",
    "test_contextlib", "test_itertools", "test_named_expressions", "test_keywordonlyarg", "test_positional_only_arg",
    "test_extcall", "test_call", "test_property", "test_decorators", "test_iter", "test_augassign", "test_global",
    "test_isinstance", "test_metaclass", "test_slice", "test_operator", "test_userdict", "test_userlist",
    "test_deque", "test_ordered_dict", "test_defaultdict", "test_dynamicclassattribute", "test_subclassinit",
    "test_abc", "test_bool", "test_compare", "test_contains", "test_opcodes", "test_pow", "test_richcmp",
    "test_string_literals", "test_tuple", "test_list", "test_dict", "test_set", "test_enumerate", "test_range",
    "test_funcattrs", "test_yield_from", "test_dictviews", "test_binop", "test_copy", "test_types", "test_dynamic",
    "test_module", "test_math", "test_int", "test_genericalias", "test_type_params", "test_type_aliases",
    "test_heapq", "test_bisect", "test_reprlib", "test_string", "test_collections", "test_weakref", "test_weakset",
]

MORE = [
    "test_coroutines", "test_asyncgen", "test_contextlib_async", "test_frame", "test_traceback", "test_warnings",
    "test_code", "test_builtin", "test_inspect", "test_sys_settrace", "test_sys_setprofile", "test_context",
    "test_typing", "test_gc", "test_threading_local", "test_pickle", "test_float", "test_complex", "test_unittest",
    "test_str", "test_re", "test_statistics", "test_fractions", "test_random", "test_graphlib", "test_annotations",
    "test_class", "test_codeop", "test_dis", "test_eof", "test_future", "test_hash", "test_iterlen", "test_lambda",
    "test_monitoring",
]

# fmt: on

_QUICKENED = "asks for CPython's own quickened code, which another evaluator does not run"
_CODE_IS_KEPT = "a guard keeps the code of a function that it has seen"
_SIZES = "asks how much memory a dict takes that a trace has written and taken back"
_TRACED = "a frame that switches tracing on and goes on by an exception is told as a call once more"
_FOLDED = "times a conversion of a constant, which a trace does and calls do not repeat"
_GARBAGE = "counts what the collector finds, and what a trace makes and drops is not made in a call"

# Tests that cannot tell anything, each with the reason.
LEFT_OUT: dict[str, str] = {
    "test_generators.__test__.syntax": "asks for the code of the functions that it defines",
    "test_code": "asks for the code of the functions that it defines",
    "test_code.CoExtra.test_free_called": _CODE_IS_KEPT,
    "test_code.CoExtra.test_free_different_thread": _CODE_IS_KEPT,
    "test_code.CodeWeakRefTest.test_basic": _CODE_IS_KEPT,
    "test_weakref.ReferencesTestCase.test_cfunction": "a guard keeps a C function that it has seen",
    "test_weakref.__test__.libreftest": "a guard keeps an object whose id() was asked for",
    "test_sys_settrace.TraceTestCase.test_09_settrace_and_raise": _TRACED,
    "test_sys_settrace.SkipLineEventsTraceTestCase.test_09_settrace_and_raise": _TRACED,
    "test_sys_settrace.TraceOpcodesTestCase.test_09_settrace_and_raise": _TRACED,
    "test_dis.DisTests.test_loop_quicken": _QUICKENED,
    "test_dis.DisTests.test_super_instructions": _QUICKENED,
    "test_dis.DisWithFileTests.test_loop_quicken": _QUICKENED,
    "test_dis.DisWithFileTests.test_super_instructions": _QUICKENED,
    "test_ordered_dict.CPythonOrderedDictTests.test_sizeof_exact": _SIZES,
    "test_ordered_dict.CPythonOrderedDictSubclassTests.test_sizeof_exact": _SIZES,
    "test_dict.DictTest.test_splittable_popitem": _SIZES,
    "test_gc.GCCallbackTests.test_collect_garbage": _GARBAGE,
    "test_gc.GCTogglingTests.test_bug1055820c": _GARBAGE,
    "test_gc.GCTests.test_get_objects_arguments": "counts all objects twice, and a compile in between makes some",
    "test_weakref.ReferencesTestCase.test_getweakrefs": "a guard keeps a weak reference that was compared",
    "test_int.IntSubclassStrDigitLimitsTests.test_denial_of_service_prevented_int_to_str": _FOLDED,
    "test_int.IntSubclassStrDigitLimitsTests.test_denial_of_service_prevented_str_to_int": _FOLDED,
    "test_gc.GCTests.test_frame": "looks for a local that nothing reads in a frame that has returned",
}


@dataclass(frozen=True)
class Task:
    file: str
    compile: str
    pattern: str = "*"
    begin: int = 0


@dataclass(frozen=True)
class Outcome:
    file: str
    test: str
    kind: str  # passed, failed, skipped, crash, hang, missing
    detail: str = ""


def _each(suite: Any) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _each(test)
        else:
            yield test


def _compile_methods(tests: list[unittest.TestCase], compile: Callable[[Any], Any]) -> None:
    """Replaces every test method where it is defined."""
    done = set()
    for test in tests:
        name = getattr(test, "_testMethodName", "")
        for cls in type(test).__mro__:
            function = cls.__dict__.get(name)
            if isinstance(function, types.FunctionType) and cls is not unittest.TestCase and (cls, name) not in done:
                done.add((cls, name))
                if not isinstance(test, doctest.DocTestCase):
                    setattr(cls, name, compile(function))


def _compile_functions_of_doctests(compile: Callable[[Any], Any]) -> None:
    def wrapped(function: Any) -> Any:
        compiled = compile(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return compiled(*args, **kwargs)

        return call

    def executed(code: Any, names: dict[str, Any]) -> None:
        exec(code, names)
        for name, value in list(names.items()):
            made_here = isinstance(value, types.FunctionType) and value.__globals__ is names
            if made_here and not hasattr(value, "__wrapped__"):
                names[name] = wrapped(value)

    doctest.__dict__["exec"] = executed


def load(file: str) -> list[unittest.TestCase]:
    from test import support

    support.verbose = 0
    support.use_resources = ["cpu"]
    module = importlib.import_module(f"test.{file}")
    return list(_each(unittest.defaultTestLoader.loadTestsFromModule(module)))


def name_of(test: unittest.TestCase) -> str:
    return test.id().removeprefix("test.")


class _Result(unittest.TestResult):
    """The first failure of one test."""

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.detail = "passed", ""

    def _wrong(self, error: Any) -> None:
        if self.kind != "failed":
            self.kind, self.detail = "failed", "".join(self._exc_info_to_string(error, self._of))  # type: ignore[attr-defined]

    def startTest(self, test: unittest.TestCase) -> None:
        self._of = test
        super().startTest(test)

    def addError(self, test: Any, err: Any) -> None:
        self._of = test
        self._wrong(err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._of = test
        self._wrong(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._of = test
            self._wrong(err)

    def addSkip(self, test: Any, reason: str) -> None:
        if self.kind == "passed":
            self.kind, self.detail = "skipped", reason

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.kind, self.detail = "failed", "was expected to fail"


def work(task: Task, emit: Callable[[Any], None]) -> None:
    emit(("begin", (task.begin, "loading")))
    compile = resolve(task.compile)
    with tempfile.TemporaryDirectory(prefix="vesta-tests-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)  # some leave files behind
        tests = load(task.file)
        if task.compile != "plain":
            _compile_methods(tests, compile)
            _compile_functions_of_doctests(compile)
        if not tests:
            emit(("outcome", Outcome(task.file, task.file, "missing", "the file has no tests")))
        for at, test in enumerate(tests):
            name = name_of(test)
            if at < task.begin or not fnmatch.fnmatch(name, task.pattern) or name in LEFT_OUT:
                continue
            emit(("begin", (at, name)))
            result = _Result()
            with contextlib.redirect_stdout(open(os.devnull, "w")):
                unittest.TestSuite([test]).run(result)
            emit(("outcome", Outcome(task.file, name, result.kind, result.detail)))
        os.chdir("/")


def run(tasks: list[Task], *, jobs: int = 1, limit_s: float = 60.0) -> Iterator[tuple[Task, Outcome]]:
    lost: list[tuple[Task, Outcome]] = []

    def resume(task: Task, step: Any, reason: str) -> Task | None:
        at, name = step if step is not None else (task.begin, "loading")
        kind = reason.split(":")[0].split()[0]
        lost.append((task, Outcome(task.file, name, "failed" if kind == "exit" else kind, reason)))
        return None if name == "loading" else replace(task, begin=at + 1)

    modules = {task.compile.partition(":")[0] for task in tasks} - {"plain", __name__, "tests.capture.cpython_tests"}
    preload = ("tests.capture.semantics", *sorted(modules))
    for task, message in isolation.run(tasks, work, resume, jobs=jobs, limit_s=limit_s, preload=preload):
        while lost:
            yield lost.pop(0)
        yield task, message[1]
    yield from lost


def available(files: list[str]) -> tuple[list[str], list[str]]:
    """The tests that this interpreter has, and those that it does not have."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.support") is None:
        return [], files
    there = [file for file in files if importlib.util.find_spec(f"test.{file}") is not None]
    return there, [file for file in files if file not in there]


def failures(
    files: list[str], compile: str, *, jobs: int = 1, limit_s: float = 60.0, pattern: str = "*", told: Any = None
) -> tuple[list[Outcome], int]:
    """Tests that pass plain and not compiled, and how many passed plain."""
    plain: dict[tuple[str, str], Outcome] = {}
    compiled: dict[tuple[str, str], Outcome] = {}
    tasks = [Task(file, spec, pattern) for file in files for spec in ("plain", compile)]
    for task, outcome in run(tasks, jobs=jobs, limit_s=limit_s):
        (plain if task.compile == "plain" else compiled)[(outcome.file, outcome.test)] = outcome
        if told:
            told(outcome)
    lost = Outcome("", "", "missing", "did not run compiled")
    passed = [key for key, outcome in plain.items() if outcome.kind == "passed"]
    found = []
    for key in passed:
        outcome = compiled.get(key, replace(lost, file=key[0], test=key[1]))
        if outcome.kind != "passed":
            found.append(outcome)
    found += [o for key, o in compiled.items() if key not in plain and o.kind != "passed"]
    return found, len(passed)


_ORDER = ["crash", "hang", "missing", "failed", "skipped"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.capture.cpython_tests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--file", action="append", default=[], metavar="NAME", help="test files (default: see --list)")
    parser.add_argument("--test", default="*", metavar="PATTERN", help="tests by shell pattern")
    parser.add_argument("--more", action="store_true", help="the default files and more")
    parser.add_argument("--compile", default="vesta:compile", metavar="MODULE:NAME", help="what compiles (%(default)s)")
    parser.add_argument("--plain", action="store_true", help="compiles nothing: plain Python against itself")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds for one test (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="failures with their tracebacks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the failures there")
    parser.add_argument("--list", action="store_true", help="lists the files and runs none")
    options = parser.parse_args(argv)
    console = Console()
    wanted = options.file or (FILES + MORE if options.more else FILES)
    files, absent = available(wanted)
    if options.list:
        console.print(" ".join(files), highlight=False)
    if absent:
        console.print(f"not in this Python {sys.version.split()[0]}: {' '.join(absent)}", highlight=False)
    if options.list or not files:
        return 0 if options.list else 1
    spec = "tests.capture.cpython_tests:unchanged" if options.plain else options.compile
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("tests", total=None)
        told = lambda outcome: progress.update(bar, advance=1, description=outcome.file)  # noqa: E731
        found, passed = failures(files, spec, jobs=options.jobs, limit_s=options.limit, pattern=options.test, told=told)
    if found:
        table = Table("test", "kind", "said", title="pass plain, and not compiled", show_lines=options.verbose)
        for outcome in sorted(found, key=lambda o: (_ORDER.index(o.kind), o.file, o.test)):
            lines = outcome.detail.strip().splitlines() or [""]
            shown = (
                outcome.detail.strip()
                if options.verbose
                else (lines[0] if outcome.kind == "crash" else lines[-1])[:200]
            )
            table.add_row(outcome.test, outcome.kind, Text(shown))
        console.print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in found], indent=1) + "\n")
    console.print(f"{passed} tests of {len(files)} files pass plain; {len(found)} of them not compiled")
    return 1 if found else 0


def unchanged(function: Any) -> Any:
    return function


if __name__ == "__main__":
    sys.exit(main())
