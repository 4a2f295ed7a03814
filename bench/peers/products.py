"""Matrix products on one core: Vesta's generated code, MKL and oneDNN. Reads commands from stdin and prints JSON lines.

    python -m bench.peers.products

M N K SECONDS ROUNDS   multiplies x (M x K) by the transpose of w (N x K), which is constant, so that Vesta and oneDNN
                       pack it once; each of the three for so long, by turns. Answers the seconds of a call

Times are those for which the thread ran, which other programs of the machine change little.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import torch

from bench.peers.engines import Call, one_line
from bench.peers.worker import difference

# Rows: one token, a batch of eight, a short text, the patches of an image, a batch of texts.
ROWS = (1, 8, 64, 197, 1024)
# (N, K) of layers, small to large: a head, the 1 x 1 convolutions of ResNet-50, MiniLM, BERT and ViT, a small Llama, a
# large one.
LAYERS = (
    (64, 64),
    (64, 256),
    (256, 64),
    (512, 128),
    (128, 512),
    (1024, 256),
    (256, 1024),
    (2048, 512),
    (512, 2048),
    (384, 384),
    (1536, 384),
    (384, 1536),
    (768, 768),
    (2304, 768),
    (3072, 768),
    (768, 3072),
    (512, 512),
    (1376, 512),
    (512, 1376),
    (4096, 4096),
)
GRID = tuple((m, n, k) for n, k in LAYERS for m in ROWS)


def thread_seconds(call: Call, seconds: float) -> float:
    """The mean of a call over at least so long, of the time for which this thread ran."""
    call()
    count, start = 0, time.thread_time()
    while True:
        call()
        count += 1
        took = time.thread_time() - start
        if took >= seconds:
            return took / count


def measure(m: int, n: int, k: int, seconds: float, rounds: int) -> dict[str, Any]:
    import vesta

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(m, k, generator=generator)
    layer = torch.nn.Linear(k, n, bias=False).eval()
    weight = layer.weight.detach()
    try:
        program = vesta.compile(layer, options={"only_if_faster": False})
        program(x)
        vesta.wait(program)
        report = vesta.explain(program).explanation
        kernels = sum(len(g.compiled.kernels) for g in report.graphs if g.compiled)
    except Exception as error:
        return {"failure": one_line(error)}
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, m)
    turned = weight.t()
    calls: list[Call] = [
        lambda: program(x),
        lambda: torch.mm(x, turned),
        lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], ""),
    ]
    results = [call() for call in calls]
    found = [difference([r], [results[1]]) for r in (results[0], results[2])]
    for name, one in zip(("Vesta", "oneDNN"), found, strict=True):
        if "failure" in one:
            return {"failure": f"{name} {one['failure']}"}
    worst = max(one["difference"] for one in found)
    times: list[list[float]] = []
    for i in range(rounds):
        order = [(i + j) % len(calls) for j in range(len(calls))]
        took = {which: thread_seconds(calls[which], seconds) for which in order}
        times.append([took[which] for which in range(len(calls))])
    return {"rounds": times, "kernels": kernels, "difference": worst}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout too: the parent reads answers only
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    with torch.no_grad():
        for line in sys.stdin:
            m, n, k, seconds, rounds = line.split()
            found = measure(int(m), int(n), int(k), float(seconds), int(rounds))
            print(json.dumps(found), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
