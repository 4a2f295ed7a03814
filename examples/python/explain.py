"""One function, and what its capture made of it: two graphs, a break, guards with their lines, a recompile."""

from __future__ import annotations

import torch

import vesta


def step(x: torch.Tensor, w: torch.Tensor, log: list[str]) -> torch.Tensor:
    y = torch.relu(x @ w)
    log.append("relu")
    if x.shape[0] * 2 < 16:
        y = y + 1
    print("log:", log)
    return y.softmax(-1)


def main() -> None:
    torch.manual_seed(0)
    w, log = torch.randn(4, 8), ["begin"]
    explain = vesta.explain(step)
    for rows in (32, 32, 48, 4):
        explain(torch.randn(rows, 4), w, log)
    print(explain)


if __name__ == "__main__":
    main()
