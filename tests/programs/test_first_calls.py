"""A first call imports nothing: torch's meta functions in Python bring in sympy and Dynamo, which take seconds."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CALLS = {
    "grid_sample": "F.grid_sample(image, grid, align_corners=False)",
    "grid_sample_bicubic": "F.grid_sample(image, grid, 'bicubic', 'border', True)",
    "affine_grid": "F.affine_grid(grid[:, 0, :2, :1].expand(2, 2, 3), [2, 3, 4, 4], align_corners=False)",
    "unfold": "F.unfold(image, 2)",
    "fold": "F.fold(F.unfold(image, 2), (4, 4), 2)",
    "solve": "torch.linalg.solve(square, column)",
    "svdvals": "torch.linalg.svdvals(square)",
    "svd": "torch.linalg.svd(square)",
    "qr": "torch.linalg.qr(square)",
    "eigh": "torch.linalg.eigh(square @ square.mT)",
    "det": "torch.linalg.det(square)",
    "inv": "torch.linalg.inv(square)",
    "cholesky": "torch.linalg.cholesky(square @ square.mT + torch.eye(4))",
    "lu": "torch.linalg.lu(square)",
    "solve_triangular": "torch.linalg.solve_triangular(square, column, upper=True)",
    "pinv": "torch.linalg.pinv(square)",
    "pinv_hermitian": "torch.linalg.pinv(square @ square.mT, hermitian=True)",
    "matrix_exp": "torch.linalg.matrix_exp(square)",
    "cross": "torch.linalg.cross(image[:, :, 0], image[:, :, 1], dim=1)",
    "trace": "torch.trace(square[0])",
    "count_nonzero": "torch.count_nonzero(image, dim=(1, 2))",
    "count_all": "torch.count_nonzero(image)",
    "diag_embed": "torch.diag_embed(column[..., 0])",
    "slice_copy": "torch.slice_copy(image, 3, 1, 3)",
    "expand_copy": "torch.expand_copy(column, (2, 4, 7))",
    "cdist": "torch.cdist(square, square)",
    "pdist": "F.pdist(square[0])",
    "frexp": "torch.frexp(image)",
    "renorm": "torch.renorm(square, 2, 0, 1.0)",
    "tril_indices": "torch.tril_indices(5, 4, -1)",
    "bessel": "torch.special.bessel_y0(image.abs() + 1)",
    "polynomial": "torch.special.chebyshev_polynomial_t(image, 3)",
    "binary_cross_entropy": "F.binary_cross_entropy(image.sigmoid(), image.sigmoid())",
    "multi_margin_loss": "F.multi_margin_loss(square[0], torch.tensor([0, 1, 2, 3]))",
    "embedding_bag": "F.embedding_bag(torch.tensor([0, 1, 2, 3]), square[0], torch.tensor([0, 2]))",
    "bilinear": "F.bilinear(square[0], square[0], square[:1].expand(5, 4, 4).contiguous())",
}

PROGRAM = """
import json, sys, torch, vesta
import torch.nn.functional as F
torch.manual_seed(0)
image, grid = torch.randn(2, 3, 4, 4), torch.rand(2, 4, 4, 2) * 2 - 1
square, column = torch.randn(2, 4, 4) + 4 * torch.eye(4), torch.randn(2, 4, 1)
# Compiled as functions of their own: a call is what is traced.
names = ["image", "grid", "square", "column"]
found = {}
def leaves(x):
    return [x] if isinstance(x, torch.Tensor) else [t for y in x for t in leaves(y)]
with torch.no_grad():
    vesta.compile(lambda x: torch.relu(x + 1))(torch.ones(8))
    for name, text in json.loads(sys.argv[1]).items():
        call = eval(f"lambda image, grid, square, column: {text}", globals())
        arguments = [globals()[n] for n in names]
        wanted = call(*arguments)
        before = set(sys.modules)
        vesta.reset()
        got = vesta.compile(call)(*arguments)
        new = sorted({m.split(".")[0] + "." + (m.split(".") + [""])[1] for m in set(sys.modules) - before})
        same = all(
            a.dtype == b.dtype and a.stride() == b.stride() and torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
            for a, b in zip(leaves(wanted), leaves(got), strict=True)
        )
        report = vesta.explain()
        found[name] = {"new": new, "same": same, "eager": [f.reason for f in report.fallbacks]}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, object]]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CALLS)], capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr
    return dict(json.loads(run.stdout))


@pytest.mark.parametrize("name", CALLS)
def test_imports_nothing(found: dict[str, dict[str, object]], name: str) -> None:
    assert found[name] == {"new": [], "same": True, "eager": []}
