"""tools/check_docs.py finds names and links in documents that lead nowhere."""

from __future__ import annotations

import shutil

import pytest

from tools import check_docs

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="the files of the repository are asked of git")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("src/graph/graph.h", None),
        ("graph/graph.h", None),
        ("src/graph", None),
        ("src/graph/passes/*.h", None),
        ("passes/{pass.h,pass_table.cpp}", None),
        ("graph/grap.h", "no file"),
        ("aph/graph.h", "no file"),
        ("passes/{pass.h,no_pass.h}", "no file"),
        ("graph.h", "more than one"),
    ],
)
def test_paths(name: str, fault: str | None) -> None:
    assert check_docs.is_path(name)
    found = check_docs.wrong_path(name)
    assert found is None if fault is None else fault in found


@pytest.mark.parametrize("name", ["torch.compile", "x / 2", "build/release", "1/2", "vesta.compile(model)", "linear"])
def test_other_code_is_no_path(name: str) -> None:
    assert not check_docs.is_path(name)


def test_names_of_the_sources() -> None:
    assert check_docs.wrong_name("pipeline::compile") is None and check_docs.wrong_name("make_plan()") is None
    # In two pieces: this file is one of the sources.
    assert check_docs.wrong_name("pipeline::comp" + "iled_twice") == "the sources have no comp" + "iled_twice"


def test_links() -> None:
    page = check_docs.ROOT / "README.md"
    for link in ("docs/capture.md", "docs/capture.md#a-compiled-module", "https://example.org/nothing"):
        assert check_docs.wrong_link(page, link) is None
    assert check_docs.wrong_link(page, "docs/nothing.md") == "there is no such file"
    assert check_docs.wrong_link(page, "docs/capture.md#nothing") == "capture.md has no such heading"
