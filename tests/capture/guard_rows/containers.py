"""Methods of containers: what they read is guarded, and nothing else."""

from __future__ import annotations

import torch

from tests.capture.guard_rows import Runner, row

X = torch.linspace(-2.0, 3.0, 6).reshape(2, 3)


def _assign(d, x):
    d["new"] = x * d["a"]


# Each reads or writes the keys that it names: "a", "b" and "new".
_BY_KEY = {
    "assign": _assign,
    "get": lambda d, x: x * d.get("a", 1),
    "pop": lambda d, x: x * d.pop("a", 1),
    "setdefault": lambda d, x: x * d.setdefault("b", 3),
    "update_by_dict": lambda d, x: d.update({"new": x * d["a"], "b": 4}),
    "update_by_names": lambda d, x: d.update(new=x * d["a"], b=5),
}


def _method(name: str):
    def program(runner: Runner) -> None:
        table = {"a": 2, "b": 7, "unread": 0}
        f = runner.compile(lambda x: _BY_KEY[name](table, x))
        runner.call(f, X)
        table["a"] = 2
        runner.call(f, X)
        for i in range(4):
            table.update({"a": 2, "unread": i, f"more{i}": X})
            runner.hit(f, X)
            runner.see(table)
        table["a"] = 3
        runner.call(f, X)
        runner.see(table)
        table.pop("a", None)
        runner.call(f, X)
        runner.see(table)

    program.__name__ = f"dict_{name}"
    return program


for _name in _BY_KEY:
    row(_method(_name))


@row
def update_by_an_old_dict(runner: Runner) -> None:
    table, source = {"a": 2, "unread": 0}, {"b": 3}
    f = runner.compile(lambda x: table.update(source) or x * table["b"])
    runner.call(f, X)
    for i in range(3):
        table["unread"] = i
        runner.hit(f, X)
        runner.see(table)
    source["b"] = 4
    runner.call(f, X)
    source["c"] = 5
    runner.call(f, X)
    runner.see(table)
