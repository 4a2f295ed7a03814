"""Lines of the project's files: totals by folder, the median, and the largest. Fails for a file over the limit."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SUFFIXES = {".cpp", ".h", ".py", ".sh", ".cmake"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alarm", type=int, default=800, help="most lines a file may have (default: 800)")
    parser.add_argument("--largest", type=int, default=10, help="how many of the largest files to list")
    parser.add_argument("--quiet", action="store_true", help="one line, and the files over the alarm")
    arguments = parser.parse_args()

    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    lines: dict[str, int] = {}
    for name in filter(None, listed.split("\0")):
        path = root / name
        if path.suffix in SUFFIXES and path.exists():
            lines[name] = len(path.read_text(encoding="utf-8").splitlines())
    if not lines:
        print("no source files")
        return 0

    folders: dict[str, list[int]] = defaultdict(list)
    for name, count in lines.items():
        parts = Path(name).parts
        folders["/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "."].append(count)
    largest = sorted(lines, key=lambda name: -lines[name])
    if not arguments.quiet:
        for folder in sorted(folders):
            print(f"{folder:24} {len(folders[folder]):4} files {sum(folders[folder]):7} lines")
        print("largest:")
        for name in largest[: arguments.largest]:
            print(f"  {lines[name]:5} {name}")
    median = statistics.median(lines.values())
    print(f"{len(lines)} files, {sum(lines.values())} lines, median {median:g}, largest {lines[largest[0]]}")

    over = [name for name in largest if lines[name] > arguments.alarm]
    for name in over:
        print(f"{name}: {lines[name]} lines, more than {arguments.alarm}; divide it by topic")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
