"""The command ``vesta``: manages the cache of compiled code, makes traces of events, describes saved programs and this
machine, and repeats recorded compiles."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

import vesta
from vesta import _C
from vesta.bisect import bisect_file
from vesta.byte_text import byte_text
from vesta.errors import Error, UserError
from vesta.events import read_events
from vesta.misses import Difference
from vesta.replay import SECONDS, replay_file

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(text: str) -> int:
    """Bytes: ``4096``, ``64k``, ``100M``, ``1.5G``."""
    unit = text[-1:].lower() if text[-1:].isalpha() else ""
    try:
        count = float(text[: len(text) - len(unit)])
    except ValueError:
        count = -1.0
    if unit not in UNITS or count < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write for example 4096, 64k, 100M or 1.5G")
    return int(count * UNITS[unit])


def folder_of(options: argparse.Namespace) -> str:
    folder: str | None = options.folder or _C.cache_folder()
    if not folder:
        raise UserError("the cache is off because VESTA_CACHE_DIR is empty; name a folder with --folder")
    return folder


def stats(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    folder = folder_of(options)
    found = _C.cache_entries(folder)
    kinds = {
        kind: [e for e in found if e.key.startswith("artifact_") == (kind == "artifacts")]
        for kind in ("artifacts", "kernels")
    }
    return 0, {
        "folder": folder,
        **{kind: {"entries": len(some), "bytes": sum(e.bytes for e in some)} for kind, some in kinds.items()},
        "bytes": sum(e.bytes for e in found),
        "most_bytes": _C.CACHE_BYTES,
        "used_last": found[0].used if found else None,
        "used_first": found[-1].used if found else None,
    }


def show_stats(told: dict[str, Any]) -> None:
    print(told["folder"])
    for kind in ("artifacts", "kernels"):
        print(f"  {kind:<10} {told[kind]['entries']:>6}  {byte_text(told[kind]['bytes']):>10}")
    print(f"  {'total':<10} {'':>6}  {byte_text(told['bytes']):>10} of {byte_text(told['most_bytes'])}")
    if told["used_last"] is not None:
        day = [time.strftime("%Y-%m-%d %H:%M", time.localtime(told[k])) for k in ("used_first", "used_last")]
        print(f"  last used between {day[0]} and {day[1]}")


def entries(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    found = [e for e in _C.cache_entries(folder_of(options)) if e.key.startswith("artifact_")]
    return 0, {"artifacts": [{"entry": e.key, "bytes": e.bytes, "used": e.used} for e in found]}


def show_entries(told: dict[str, Any]) -> None:
    for e in told["artifacts"]:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(e["used"]))
        print(f"{e['entry']}  {byte_text(e['bytes']):>10}  {used}")


def verify(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    folder = folder_of(options)
    found = _C.cache_entries(folder, check=True)
    damaged = [e.key for e in found if not e.intact]
    return int(bool(damaged)), {"folder": folder, "entries": len(found), "damaged": damaged}


def show_verify(told: dict[str, Any]) -> None:
    for key in told["damaged"]:
        print(f"damaged: {key}")
    print(f"{told['folder']}: {told['entries']} entries, {len(told['damaged'])} damaged")
    if told["damaged"]:
        print("Damaged entries are never used; `vesta cache trim --damaged` deletes them.")


def trim(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    folder = folder_of(options)
    return 0, {"folder": folder, "deleted_bytes": _C.cache_trim(folder, options.to, options.damaged)}


def clear(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    folder = folder_of(options)
    return 0, {"folder": folder, "deleted_bytes": _C.cache_trim(folder, 0)}


def show_deleted(told: dict[str, Any]) -> None:
    print(f"{told['folder']}: {byte_text(told['deleted_bytes'])} deleted")


def why_miss(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    found = _C.compare_entries(folder_of(options), options.a, options.b)
    names = ("field", "was", "now", "where")
    return 0, {"differences": [dict(zip(names, d, strict=True)) for d in found]}


def show_differences(told: dict[str, Any]) -> None:
    for d in told["differences"]:
        print(Difference(**d))
    if not told["differences"]:
        print("no difference: both artifacts were compiled from and for the same")


def show(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    told = _C.show_program(options.file, options.check)
    return int(bool(told.get("damaged_storages"))), told


def show_program(told: dict[str, Any]) -> None:
    print(told["text"], end="")
    if "damaged_storages" in told:
        print(f"\nweights: {len(told['damaged_storages'])} damaged storages")


def events(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    found = read_events(options.file)
    found.save(options.trace)
    return 0, {"trace": options.trace, "events": len(found), "text": str(found)}


def show_events(told: dict[str, Any]) -> None:
    print(f"{told['trace']}: {told['text']}")


def env(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    return 0, {
        "vesta": vesta.__version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "cache": _C.cache_folder(),
        **_C.host_target(),
    }


def show_env(told: dict[str, Any]) -> None:
    for name, value in told.items():
        if name == "caches":
            value = ", ".join(byte_text(b) for b in value)
        print(f"{name:<13} {'none' if value is None else value}")


def replay(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    told = replay_file(options.file, options.number, options.seconds)
    if not options.plan and not options.json:
        for c in told["compiles"]:
            c["plan"] = ""
    return int(any(c["status"] != "right" for c in told["compiles"])), told


def show_replay(told: dict[str, Any]) -> None:
    for line in told["versions"]:
        print(f"recorded with another version: {line}")
    for sentence in dict.fromkeys(s for c in told["compiles"] for s in c["not_confined"]):
        print(f"not confined: {sentence}")
    for c in told["compiles"]:
        print(f"compile {c['number']} (recorded: {c['recorded']}): {c['status']}")
        if c["error"]:
            print(f"  {c['error']}")
        for line in c["results"].splitlines():
            print(f"  {line}")
        if c["ms"]:
            print(f"  {'stage':<30} {'ms':>9} {'recorded':>9}")
        passes = sum(ms for name, ms in c["ms"].items() if name.startswith("pass:"))
        recorded = sum(ms for name, ms in c["recorded_ms"].items() if name.startswith("pass:"))
        rows = [("passes", passes, recorded)] if c["ms"] else []
        rows += [(n, ms, c["recorded_ms"].get(n)) for n, ms in c["ms"].items() if not n.startswith("pass:")]
        for name, ms, was in rows:
            print(f"  {name:<30} {ms:>9.2f} {'' if was is None else f'{was:.2f}':>9}")
        if c["plan"]:
            print(c["plan"], end="")


def bisect(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    found = bisect_file(options.file, options.number, options.seconds, tell)
    small = next((culprit.case for _, culprit in found if culprit.case), "")
    if options.write and small:
        try:
            with open(options.write, "w", encoding="utf-8") as file:
                file.write(small)
        except OSError as error:
            raise UserError(f"cannot write {options.write}: {error.strerror}") from None
    told = [
        {
            "number": number,
            "right": culprit.right,
            "what": culprit.what,
            "kernels": list(culprit.kernels),
            "passes": list(culprit.passes),
            "rewrite": culprit.rewrite,
            "change": culprit.change,
        }
        for number, culprit in found
    ]
    return int(not all(c["right"] for c in told)), {"file": options.file, "compiles": told}


def show_bisect(told: dict[str, Any]) -> None:
    for c in told["compiles"]:
        print(f"compile {c['number']}: {c['what']}")
        if c["rewrite"] is not None:
            print(f"  the first rewrite that makes it wrong has the number {c['rewrite']} (rewrite_limit); it changes")
        for line in c["change"].splitlines():
            print(f"    {line}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="vesta", description=__doc__)
    made.add_argument("--version", action="version", version=f"vesta {vesta.__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def add(to: Any, name: str, run: Any, show: Any, text: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = to.add_parser(name, help=text, description=text)
        one.add_argument("--json", action="store_true", help="print JSON")
        one.set_defaults(run=run, show=show)
        return one

    cache = commands.add_parser(
        "cache", help="manage the cache of compiled code", description="Manage the cache of compiled code."
    )
    of_cache = cache.add_subparsers(required=True, metavar="COMMAND")
    add(of_cache, "stats", stats, show_stats, "count entries and bytes")
    add(
        of_cache,
        "verify",
        verify,
        show_verify,
        "read every entry and compare its digest; the exit status is 1 if an entry is damaged",
    )
    of_trim = add(of_cache, "trim", trim, show_deleted, "delete the least recently used entries")
    of_trim.add_argument(
        "--to",
        type=size,
        default=_C.CACHE_BYTES,
        metavar="SIZE",
        help="keep at most this many bytes, for example 100M (default: the limit of the cache, 1G)",
    )
    of_trim.add_argument("--damaged", action="store_true", help="also delete damaged entries")
    add(of_cache, "clear", clear, show_deleted, "delete every entry")
    add(of_cache, "list", entries, show_entries, "list every artifact, most recently used first")
    of_why = add(commands, "why-miss", why_miss, show_differences, "show how the keys of two artifacts differ")
    of_why.add_argument(
        "a", metavar="A", help="an artifact's name, as `vesta cache list` and vesta.why_miss print it, or how it begins"
    )
    of_why.add_argument("b", metavar="B", help="the artifact to compare with")
    for one in (*of_cache.choices.values(), of_why):
        one.add_argument("--folder", help="folder of the cache (default: VESTA_CACHE_DIR, or the user's cache folder)")
    of_show = add(commands, "show", show, show_program, "describe a file that vesta.save wrote")
    of_show.add_argument("file", help="a file that vesta.save wrote")
    of_show.add_argument("--check", action="store_true", help="also compare the weights with their digests")
    of_events = add(commands, "events", events, show_events, "make a trace for Perfetto or Chrome of recorded events")
    of_events.add_argument("file", help="a file of events that VESTA_EVENTS named, with a line of JSON for each")
    of_events.add_argument("trace", help="the file to write: a .json, which https://ui.perfetto.dev opens")
    add(commands, "env", env, show_env, "show versions, the machine that code is compiled for, and the cache")
    of_replay = add(
        commands,
        "replay",
        replay,
        show_replay,
        "compile and run what vesta.record has kept, without network and without write access, and compare the "
        "results with those of PyTorch's operators; the exit status is 1 if a compile fails or a result is wrong",
    )
    of_replay.add_argument("--plan", action="store_true", help="also print each plan")
    of_bisect = add(
        commands,
        "bisect",
        bisect,
        show_bisect,
        "find the kernel, the pass and the rewrite at fault for what vesta.record has kept; candidates are told on "
        "stderr as they run; the exit status is 1 if something is at fault",
    )
    of_bisect.add_argument(
        "--write", metavar="CASE", help="write a case that has only the kernel at fault to this file"
    )
    for one in (of_replay, of_bisect):
        one.add_argument("file", help="a file that vesta.record wrote")
        one.add_argument("--number", type=int, metavar="N", help="only the compile with this number, from 1")
        one.add_argument(
            "--seconds",
            type=float,
            default=SECONDS,
            metavar="S",
            help=f"time for each process that compiles and runs (default: {SECONDS:g})",
        )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        status, told = options.run(options)
    except Error as error:
        print(f"vesta: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(told))
    else:
        options.show(told)
    return int(status)
