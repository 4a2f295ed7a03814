"""Switches in the environment: logs on stderr, and a folder for each compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import torch, vesta
f = vesta.trace_and_compile(lambda x: torch.nonzero(x) if x.dim() == 1 else torch.softmax(x, -1))
f(torch.randn(4, 5))
f(torch.randn(4))
f(torch.randn(4))
"""


def logged(topics: str, folder: Path) -> str:
    environment = {**os.environ, "VESTA_LOG": topics, "VESTA_DUMP": str(folder)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_topics_and_folders(tmp_path: Path):
    text = logged("all", tmp_path)
    for topic in ("stages", "graph", "plan", "fallbacks"):
        assert f"[vesta {topic}]" in text, text
    assert "needs a value: aten::nonzero" in text
    (folder,) = tmp_path.iterdir()
    names = [p.name for p in folder.iterdir()]
    assert "00_graph_traced.txt" in names and any("plan" in n for n in names)


def test_an_unknown_topic_is_named_and_the_others_count(tmp_path: Path):
    nowhere = tmp_path / "file"
    nowhere.touch()
    text = logged("nonsense,stages", nowhere)
    assert 'unknown log topic "nonsense"; the topics are stages' in text
    assert "[vesta stages]" in text and "[vesta graph]" not in text
    assert f"cannot dump to {nowhere}" in text
