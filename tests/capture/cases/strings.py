"""Strings, bytes and formatting beside tensors."""

import string
import textwrap

import torch

from tests.capture.case import case, t


@case(lambda: (t(3), "relu"), lambda: (t(3), "tanh"), lambda: (t(3), "other"))
def dispatch_on_name(x, name):
    if name == "relu":
        return x.relu()
    if name == "tanh":
        return x.tanh()
    return getattr(x, "abs")()


@case(lambda: (t(3), 7, 2.5), lambda: (t(3), 8, 0.1))
def f_string(x, n, a):
    return x + n, f"n={n} a={a:.2f} {n!r:>5} {x.shape} {n:05d} {a:e} {n:#x} {n=} {{}} {n:{n}}"


@case(lambda: (t(3), "left", 6), lambda: (t(3), "a", 3))
def f_string_nested(x, word, width):
    return x * width, f"{word:^{width}}|{word!r}|{word!s:>{width + 2}}|{'x' + word}|{[i for i in range(2)]}"


@case(lambda: (t(2, 3),), lambda: (t(4),))
def f_string_of_shape(x):
    label = f"{tuple(x.shape)} {x.dtype} {x.dim()}"
    return x + len(label), label


@case(lambda: (t(3), "a,b;c"), lambda: (t(3), "x"))
def methods(x, s):
    return (
        x + len(s),
        s.upper(),
        s.split(","),
        s.partition(";"),
        s.replace(",", "-"),
        s.startswith("a"),
        s.endswith(("c", "d")),
        s.find("b"),
        s.count(","),
        s.title(),
        s.center(9, "*"),
        s.zfill(8),
        s.encode(),
        "-".join(reversed(s)),
        s.isalpha(),
        s.strip("ac"),
        s.rsplit(",", 1),
        s.removeprefix("a"),
        s.casefold(),
        s.translate(str.maketrans("abc", "123")),
    )


@case(lambda: (t(3), "weight"), lambda: (t(3), "bias"))
def build_key(x, name):
    table = {"layer.weight": 2, "layer.bias": 3}
    return x * table["layer." + name]


@case(lambda: (t(3), 3), lambda: (t(3), 0))
def percent_and_format(x, n):
    return x + n, "%d %s %.3f %%" % (n, "s", n / 4), "{0} {1!r} {name:>4}".format(n, "q", name=n), "{:,}".format(10**n)


@case(lambda: (t(3), "abc"), lambda: (t(3), "hello"))
def iterate_characters(x, s):
    for i, c in enumerate(s):
        x = x + ord(c) - 96 + i
    return x, [chr(ord(c) + 1) for c in s]


@case(lambda: (t(3), "hello world"), lambda: (t(3), "ab"))
def slices(x, s):
    return x, s[0], s[-1], s[1:4], s[::-1], s[::2], s * 2, s + "!", "l" in s, s < "i", s[100:]


@case(lambda: (t(3), b"\x01\x02\xff"), lambda: (t(3), b""))
def byte_strings(x, b):
    total = sum(b)
    return x + total, b.hex(), list(b), b[:1] + b"z", bytearray(b).find(2), bytes([1, 2])


@case(lambda: (t(3), "a"), lambda: (t(3), "b"), lambda: (t(3), ""))
def truth_of_string(x, s):
    while s and len(s) < 4:
        s += s[0]
        x = x + 1
    return x, s


@case(lambda: (t(3), "key"), lambda: (t(3), "other"))
def membership(x, s):
    if s in ("key", "value"):
        x = x + 1
    if s not in {"other", "more"}:
        x = x * 2
    if "e" in s:
        x = x - 3
    return x


@case(lambda: (t(3), "dog"), lambda: (t(3), "cat"))
def template(x, who):
    return x, string.Template("the $who").substitute(who=who), textwrap.dedent("  a\n  b"), string.ascii_lowercase[:3]


@case(lambda: (t(3), 1), lambda: (t(3), 2))
def repr_and_str(x, n):
    class Named:
        def __init__(self, n):
            self.n = n

        def __repr__(self):
            return f"Named({self.n})"

        def __format__(self, spec):
            return f"<{self.n}:{spec}>"

    it = Named(n)
    return x + n, repr(it), str(it), f"{it} {it:abc} {it!r}", "{}".format(it), repr([it, n, "s", None, 1.5])


@case(lambda: (t(2),))
def repr_of_tensor(x):
    y = x + 1
    return y, repr(y), str(x)


@case(lambda: (t(3), "é ü"), lambda: (t(3), "日本"))
def unicode_text(x, s):
    return x + len(s.encode("utf-8")), s.encode("utf-8").decode("utf-8") == s, ascii(s), s.upper()


@case(lambda: (t(3), "x"), lambda: (t(3), 3))
def join_of_generator(x, s):
    return x * 2, ", ".join(str(i) + str(s) for i in range(3))


@case(lambda: (t(3), "float64"), lambda: (t(3), "float16"))
def dtype_by_name(x, name):
    return x.to(getattr(torch, name))
