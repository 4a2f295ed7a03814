"""Writes the opcode table of the interpreter that runs this script, as a C++ header: opcode_table[opcode]."""

from __future__ import annotations

import argparse
import dis
import opcode
import sys
from pathlib import Path


def caches(name: str) -> int:
    entries = getattr(opcode, "_inline_cache_entries")  # noqa: B009 (private: the checker does not know it)
    if isinstance(entries, dict):
        return int(entries.get(name, 0))
    return int(entries[opcode.opmap[name]])


def header() -> str:
    names = {
        number: name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")
    }
    rows = [f'    {{"{names[n]}", {caches(names[n])}}},' if n in names else "    {nullptr, 0}," for n in range(256)]
    version = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    return "\n".join(
        [
            f"// The opcodes of Python {version}; made by tools/gen_opcodes.py.",
            "#pragma once",
            "",
            "namespace vesta::capture {",
            "",
            "struct OpcodeRow {",
            "  const char* name;  // nullptr: not an opcode of compiled code",
            "  int caches;        // code units of inline cache after it",
            "};",
            "",
            "inline constexpr OpcodeRow opcode_table[256] = {",
            *rows,
            "};",
            "",
            "}  // namespace vesta::capture",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output
    text = header()
    if not output.exists() or output.read_text(encoding="utf-8") != text:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
