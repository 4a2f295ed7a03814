"""docs/messages.md equals the output of tools/messages.py, and no message has a word of a private vocabulary."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import check_words  # noqa: E402
import messages  # noqa: E402

pytest.importorskip("vesta")


def test_the_page_is_up_to_date() -> None:
    assert messages.PAGE.read_text() == messages.page(), "python tools/messages.py --write"


def test_no_message_has_a_private_word() -> None:
    assert check_words.check("docs/messages.md") == []


def test_texts_of_c_plus_plus() -> None:
    source = """
      // throw UserError("a comment is no message")
      VESTA_USER_CHECK(x == f("an argument"), "the size {} is " "wrong, \\"{}\\"", n, name(a, b));
      if (bad) throw UserError(fmt::format("it cannot {}: {}", what, ','));
      log::write(log::Topic::Plan, "first line\\nsecond line");
    """
    text = messages.without_comments(source)
    calls = [(m[1], messages.arguments(text, m.end())) for m in messages.CALL.finditer(text)]
    assert [name for name, _ in calls] == ["VESTA_USER_CHECK", "UserError", "write"]
    assert [list(messages.joined(a)) for a in calls[0][1]][1] == ['the size {} is wrong, "{}"']
    assert list(messages.joined(calls[1][1][0])) == ["it cannot {}: {}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("It lets go of the object.", 1), ("The door is open, and a twin.", 2), ("An entry point releases it.", 0)],
)
def test_words_are_found(tmp_path: Path, text: str, found: int) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    assert len(check_words.check(str(file))) == found


def test_the_check_runs_alone() -> None:
    done = subprocess.run([sys.executable, "tools/check_words.py", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "FILE" in done.stdout.upper()
