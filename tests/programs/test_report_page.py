"""vesta.explain(html=...): one page that needs no other file, shows what was measured, and escapes what it shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.build import generates_code
from vesta.page.markup import Markup, tag
from vesta.page.measured import Range, measure
from vesta.page.steps import match, timed_steps
from vesta.page.time_line import Bar, draw_time_line

VOID = {"meta", "br"}


class Page(HTMLParser):
    """The tags, texts and links of a page. Raises AssertionError for a tag that is not closed in its place."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ w)
    print(end="<script>alert('x')</script>" * 0)  # </code></pre><script>alert(1)</script>
    if x.shape[0] * 2 < 16:
        y = y + 1
    return (y @ w).softmax(-1)


def page_of(path: Path) -> Page:
    return Page(path.read_text())


@pytest.fixture
def page(tmp_path: Path) -> Page:
    path = tmp_path / "report.html"
    explainer = vesta.explain(vesta.compile(step, options={"only_if_faster": False, "cache": False}), html=path)
    w = torch.randn(64, 64, dtype=torch.float64)  # products in double precision are calls
    for rows in (32, 48, 4, 48):
        x = torch.randn(rows, 64, dtype=torch.float64)
        explainer(x, w)
        torch.testing.assert_close(explainer.result, step(x, w))
    return page_of(path)


def test_it_loads_nothing_and_runs_nothing(page: Page) -> None:
    assert "script" not in page.tags
    links = [value for name, value in page.attributes if name in ("href", "src", "srcset", "action")]
    assert links and all(link.startswith("#") for link in links)
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert any(value.startswith("default-src 'none'") for _, value in page.attributes)
    style = next(text for text in page.texts if "color-scheme" in text)
    assert "url(" not in style and "@import" not in style


def test_it_shows_each_part(page: Page) -> None:
    text = " ".join(page.texts)
    assert "print(end=" in text and "</code></pre><script>alert(1)</script>" in text
    for part in ("calls print, which writes to a file", "print after the compiled function has returned", "32", "48"):
        assert part in text
    headings = [page.texts[i] for i, t in enumerate(page.texts)]
    for heading in ("The compile", "The call", "Graphs", "Graph breaks", "Recompiles", "Guards", "Memory"):
        assert heading in headings
    assert "step:" in text and "aten::mm" in text
    if generates_code():
        assert "relu" in text and "as measured in the call" in text


def test_every_target_of_a_link_exists(page: Page) -> None:
    ids = {value for name, value in page.attributes if name == "id"}
    assert {value[1:] for name, value in page.attributes if name == "href"} <= ids


def test_text_cannot_become_a_tag() -> None:
    made = tag("td", "<b>&\"'", Markup("<i>x</i>"), title='"><script>', class_="a")
    assert made == ('<td title="&quot;&gt;&lt;script&gt;" class="a">&lt;b&gt;&amp;&quot;&#x27;<i>x</i></td>')
    assert tag("p", "a\x00b\ud800c\n") == "<p>a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\n</p>"


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(16, 16, dtype=torch.float64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b, c = self.weights
        left, right = x @ a, x @ b
        return (left.sin() * right) @ c


def graph_of(explanation: vesta.Explanation) -> Any:
    (graph,) = explanation.graphs
    return graph


def test_steps_know_what_they_read() -> None:
    with torch.no_grad():
        explainer = vesta.explain(vesta.compile(Branches().eval(), options={"cache": False}))
        steps = graph_of(explainer(torch.randn(16, 16, dtype=torch.float64))).steps
    by_name = [(s.name.removeprefix("aten::").split(".")[0], list(s.after)) for s in steps]
    products = [i for i, s in enumerate(steps) if s.name.startswith("aten::linear")]
    assert len(products) == 3
    assert [list(steps[i].after) for i in products[:2]] == [[], []]
    between = set(range(len(steps))) - set(products)
    assert products[2] == len(steps) - 1 and set(steps[products[2]].after) <= between
    if generates_code():
        (kernel,) = between
        assert set(steps[kernel].after) == set(products[:2]), by_name
        assert steps[kernel].is_kernel and list(steps[kernel].ops) == ["aten::sin", "aten::mul.Tensor"]
        assert steps[kernel].bytes > 0 and steps[kernel].estimated_us > 0
        assert not steps[products[0]].is_kernel


@pytest.mark.kernels
def test_arena_bytes_are_those_of_each_step() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x @ w).sin().sum(-1, keepdim=True) * x).exp() @ w

    with torch.no_grad():
        explainer = vesta.explain(vesta.compile(f, options={"cache": False}))
        graph = graph_of(explainer(torch.randn(64, 64), torch.randn(64, 64)))
    used = [s.arena_bytes for s in graph.steps]
    assert min(used) >= 0 and 0 < max(used) <= graph.compiled.arena_bytes


def test_measured_times_are_of_the_steps(tmp_path: Path) -> None:
    model = Branches().eval()
    compiled = vesta.compile(model, options={"cache": False})
    x = torch.randn(16, 16, dtype=torch.float64)
    with torch.no_grad():
        compiled(x)
        result, measured = measure(lambda: compiled(x))
    torch.testing.assert_close(result, model(x).detach())
    assert not measured.compiled and measured.us > 0
    graph = graph_of(vesta.explain(compiled).explanation)
    timed = timed_steps(graph, measured)
    assert all(s.measured and s.us is not None and s.us > 0 for s in timed)
    assert sum(s.us or 0.0 for s in timed) < measured.us
    assert [s.us for s in timed_steps(graph, None)] == [s.estimated_us if s.is_kernel else None for s in graph.steps]


@pytest.mark.kernels
def test_a_graph_that_did_not_run_has_no_measured_times() -> None:
    compiled = vesta.compile(lambda x: x.sin() + 1, dynamic=False, options={"cache": False})
    compiled(torch.randn(64))
    small = torch.randn(32)
    compiled(small)
    _, measured = measure(lambda: compiled(small))
    graphs = vesta.explain(compiled).explanation.graphs
    ran = [g for g in graphs if any(s.measured for s in timed_steps(g, measured))]
    assert len(graphs) == 2 and len(ran) == 1
    assert ran[0].hits == 2


@pytest.mark.kernels
def test_ranges_without_a_step_and_steps_without_a_range() -> None:
    explainer = vesta.explain(vesta.compile(lambda x, w: (x @ w).sin() + 1, options={"cache": False}))
    product, kernel = graph_of(explainer(torch.randn(4, 4), torch.randn(4, 4))).steps
    inner = (Range("aten::other", 0.0, 1.0), Range(kernel.name, 5.0, 2.0))
    assert match((product, kernel), inner) == {1: 2.0}
    assert match((product, kernel), inner[:1]) == {}


def test_a_recording_goes_on_and_another_profiler_is_left_alone(tmp_path: Path) -> None:
    compiled = vesta.compile(lambda x: x.sin() + 1, options={"cache": False})
    x = torch.randn(64)
    with vesta.events(True) as recorded:
        compiled(x)
        _, measured = measure(lambda: compiled(x))
        assert {e.type for e in measured.events} >= {"call", "run"}
        assert not measured.compiled
        before = len(recorded)
        compiled(x)
        assert len(recorded) > before
    with torch.profiler.profile() as profile:
        vesta.explain(compiled, html=tmp_path / "page.html")(x)
    assert profile.events()
    assert "another profiler was on" in " ".join(page_of(tmp_path / "page.html").texts)


def test_an_error_of_the_call_passes_and_ends_the_recording() -> None:
    def fails() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        measure(fails)
    vesta.events(True)  # raises if one is recorded already
    vesta.events(False)


def traced(x: torch.Tensor) -> torch.Tensor:
    return x.cos() + 1


def test_everything_compiled_has_a_page(tmp_path: Path) -> None:
    path = tmp_path / "all.html"
    compiled = vesta.compile(step, options={"only_if_faster": False, "cache": False})
    by_dynamo = vesta.trace_and_compile(traced)
    with vesta.events(True):
        compiled(torch.randn(8, 64), torch.randn(64, 64))
        by_dynamo(torch.randn(16))
    explanation = vesta.explain(html=path)
    text = " ".join(page_of(path).texts)
    assert "traced, variant 0" in text and "step, graph 1" in text
    assert "The last recorded call" in [v for n, v in page_of(path).attributes if n == "aria-label"]
    assert str(explanation)


def test_modules_of_only_are_named(tmp_path: Path) -> None:
    path = tmp_path / "parts.html"
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval()
    with torch.no_grad():
        vesta.explain(vesta.compile(model, only=["0"]), html=path)(torch.randn(2, 4))
    assert "Sequential is compiled in parts, and the rest of it runs in Python. The parts are: " in page_of(path).texts


def test_a_time_line_cuts_gaps_and_nests_by_time() -> None:
    bars = [
        Bar("main", "stage", "outer", 0.0, 100.0),
        Bar("main", "stage", "inner", 10.0, 50.0),
        Bar("main", "stage", "later", 1e9, 100.0),
    ]
    drawing = draw_time_line(bars, "a")
    rows = [float(y) for y in re.findall(r'<rect x="[\d.]+" y="([\d.]+)"', drawing)]
    assert rows[1] > rows[0] and rows[2] == rows[0]
    widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="16"', drawing)]
    assert widths[0] > 400 and widths[2] > 400  # the gap between them is not drawn at its length
    assert draw_time_line([], "a") == ""


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_chromium_shows_the_page(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    vesta.explain(step, html=path)(torch.randn(32, 64), torch.randn(64, 64))
    assert CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    shown = subprocess.run(
        [*command, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Refused to" not in shown.stderr and "CONSOLE" not in shown.stderr
    assert shown.stdout.count("<svg") == path.read_text().count("<svg") > 2
    assert "<script" not in shown.stdout
