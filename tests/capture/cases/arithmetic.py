"""Arithmetic and comparisons of Python numbers and tensors, mixed."""

import cmath
import fractions
import math

import torch

from tests.capture.case import case, t


@case(lambda: (t(3), 2), lambda: (t(4), 5), lambda: (t(3), -1))
def int_scalar(x, n):
    return x * n + n // 2 - n % 3


@case(lambda: (t(3), 0.5), lambda: (t(3), 0.25), lambda: (t(3), -2.0))
def float_scalar(x, a):
    return x * a + a**2, a / 4


@case(lambda: (t(3), True), lambda: (t(3), False))
def bool_scalar(x, flag):
    return x + flag, x * flag, flag + 1


@case(lambda: (t(3), 7), lambda: (t(3), 7.0), lambda: (t(3), True), lambda: (t(3), 7))
def argument_type_changes(x, n):
    return x + n, type(n).__name__, n / 2


@case(lambda: (t(2, 3), 3))
def reflected_operators(x, n):
    return n + x, n - x, n * x, n / (x + 100), n ** (x / 4), n // (x + 100), n % (x + 100)


@case(lambda: (t(4, dtype=torch.int64), 3), lambda: (t(4, dtype=torch.int64), 5))
def integer_tensor(x, n):
    return x // n, x % n, x & n, x | n, x ^ n, ~x, x << 1, (x + 8) >> 1, -x, +x, abs(x)


@case(lambda: (t(3), t(3, seed=1)))
def comparisons(x, y):
    return x < y, x <= y, x == y, x != y, x > y, x >= y, x == 1, 1 > x


@case(lambda: (t(3), 4), lambda: (t(3), 3), lambda: (t(3), 10))
def branch_on_int(x, n):
    if n > 3:
        return x + n
    elif n == 3:
        return x - n
    return x * n


@case(lambda: (t(3), 4), lambda: (t(3), 30), lambda: (t(3), -5))
def chained_comparison(x, n):
    if 0 < n < 10 <= n + 6:
        return x + 1
    return x - 1, 0 <= n <= 100


@case(lambda: (t(3), 1, 2), lambda: (t(3), 0, 2), lambda: (t(3), 0, 0))
def bool_operators(x, a, b):
    c = a or b
    d = a and b
    e = not a
    return x + c + d, c, d, e, (a or b) and not (a and b)


@case(lambda: (t(3), 10, 3), lambda: (t(3), -10, 3), lambda: (t(3), 10, -3))
def int_division(x, a, b):
    q, r = divmod(a, b)
    return x + q, q, r, a // b, a % b, -a // b, math.fmod(a, b)


@case(lambda: (t(3), 200), lambda: (t(3), 2))
def big_integers(x, n):
    big = 2**n + 1
    return x + big % 1000, big, big >> (n - 1), big.bit_length(), (-big).bit_count()


@case(lambda: (t(3), 6, 3), lambda: (t(3), 12, 10))
def bit_operators(x, a, b):
    return x * (a & b), a | b, a ^ b, ~a, a << b, a >> 1


@case(lambda: (t(3), 2.75), lambda: (t(3), -2.5), lambda: (t(3), 1e300))
def float_methods(x, a):
    return x + 1, a.is_integer(), a.hex(), int(a), round(a), a.as_integer_ratio(), abs(a), -a


@case(lambda: (t(3), 3.14159, 2), lambda: (t(3), 2.71828, 3))
def rounding(x, a, n):
    return x + round(a, n), round(a), math.floor(a), math.ceil(a), math.trunc(a), round(12345, -2)


@case(lambda: (t(3), float("nan"), float("inf")), lambda: (t(3), -0.0, float("-inf")))
def special_floats(x, a, b):
    return x * a, x + b, a == a, a < b, math.isnan(a), math.isinf(b), a is a, -a


@case(lambda: (t(4), 16, 5), lambda: (t(4), 100, 7))
def math_functions(x, n, k):
    return (
        x * math.sqrt(n),
        math.gcd(n, k),
        math.lcm(n, k),
        math.comb(n, k),
        math.factorial(k),
        math.isqrt(n),
        math.prod([n, k]),
        math.log2(n),
        math.hypot(3, 4),
        math.copysign(1.0, -n),
        math.pi,
    )


@case(lambda: (t(3), 1 + 2j), lambda: (t(3), 3 - 1j))
def complex_numbers(x, z):
    return x * z.real, z * z.conjugate(), abs(z), z.imag, z**2, cmath.phase(z) > 0


@case(lambda: (t(3), 1 + 2j))
def complex_tensor(x, z):
    return x * z


@case(lambda: (t(3), fractions.Fraction(1, 4)), lambda: (t(3), fractions.Fraction(3, 8)))
def fraction(x, q):
    return x * float(q + 1), q + 1, q.numerator


@case(lambda: (t(3), 5), lambda: (t(3), 6))
def augmented_numbers(x, n):
    n += 1
    n *= 2
    n -= 3
    n //= 2
    n **= 2
    n %= 7
    n <<= 2
    n |= 1
    n &= 29
    n ^= 3
    n /= 2
    return x + n, n


@case(lambda: (t(3),))
def augmented_tensor_rebinds_nothing(x):
    y = x
    y += 1
    y *= 2
    z = y
    z = z - 1
    return y, z, y is x


@case(lambda: (t(3, dtype=torch.int64), 2), lambda: (t(3, dtype=torch.int64), 2.5))
def promotion(x, n):
    return x + n, x * 1.0, x / 2, x + True, x**2, n * x


@case(lambda: (t(2, 3), t(3, 2)))
def matrix_multiply(x, y):
    return x @ y, (y @ x) @ y


@case(lambda: (t(3), 3), lambda: (t(3), 0))
def conditional_expression(x, n):
    return (x + 1 if n else x - 1), ("yes" if n > 2 else "no")


@case(lambda: (t(3), 3, 4, 5), lambda: (t(3), 3, 4, 0), lambda: (t(3), -3, 2, 7))
def min_max_sum(x, a, b, c):
    return x + max(a, b, c), min([a, b, c]), sum((a, b, c)), sum([a, b], 10), max([], default=None), pow(a, 2, 5)


@case(lambda: (t(2, 3),), lambda: (t(4, 5),), lambda: (t(1, 0),))
def sizes_in_arithmetic(x):
    n, m = x.shape
    k = n * m + x.dim() - x.numel()
    return x + k, n // 2 + m % 2, x.shape[-1] * 2, x.size(0) == n


@case(lambda: (t(3), 2, 3), lambda: (t(3), 300, 300), lambda: (t(3), 5, 5))
def equal_and_hash(x, a, b):
    return x + (a == b), a != b, hash(a) == hash(float(a)), {a: 1, float(a): 2}, 1 == 1.0 == True


@case(lambda: (t(3), "12", "2.5"), lambda: (t(3), "-7", "1e2"))
def conversions(x, a, b):
    return x * int(a) + float(b), bool(a), int(a, 16), str(float(b)), complex(b), bin(int(a)), hex(255), oct(8)


@case(lambda: (t(3), None), lambda: (t(3), 2), lambda: (t(3), None))
def optional_argument(x, scale):
    if scale is None:
        return x + 1
    return x * scale


@case(
    lambda: (t(3, dtype=torch.float64), 3),
    lambda: (t(3, dtype=torch.float16), 3),
    lambda: (t(3, dtype=torch.bfloat16), 3),
)
def dtype_changes(x, n):
    return x * n + 1, x.dtype, (x + 1).dtype == torch.float32
