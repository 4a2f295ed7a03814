"""The same work in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_threads(count: int, work: Callable[[int], None], limit_s: float = 120.0) -> None:
    """`work(0)` ... `work(count - 1)`, each in a thread of its own. Raises the first error, or that one hangs."""
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            work(n)
        except BaseException as error:
            error.add_note(f"in thread {n}")
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=limit_s)
    if errors:
        raise errors[0]
    assert not any(t.is_alive() for t in threads), "a thread hangs"
