"""async functions, awaited and compiled; async generators, context managers and comprehensions."""

import asyncio
import contextlib
import inspect

import torch

from tests.capture.case import case, t


def _run(coroutine):
    return asyncio.run(coroutine)


async def _double(x):
    await asyncio.sleep(0)
    return x * 2


async def _numbers(n):
    for i in range(n):
        yield i


@case(lambda: (t(3), 2), lambda: (t(4), 3), drive=lambda f, x, n: _run(f(x, n)))
async def coroutine_function(x, n):
    y = await _double(x + n)
    return y + 1


@case(lambda: (t(3),), drive=lambda f, x: _run(f(x)))
async def gathered(x):
    a, b = await asyncio.gather(_double(x), _double(x + 1))
    return a - b


@case(lambda: (t(3), 3), drive=lambda f, x, n: _run(f(x, n)))
async def async_for_and_comprehension(x, n):
    async for i in _numbers(n):
        x = x + i
    return x, [i * 2 async for i in _numbers(n)], [await _double(x) for _ in range(2)]


@contextlib.asynccontextmanager
async def _managed(log):
    log.append("in")
    yield log
    log.append("out")


@case(lambda: (t(3),), drive=lambda f, x: _run(f(x)))
async def async_with(x):
    log = []
    async with _managed(log):
        x = x + len(log)
    return x, log


@case(lambda: (t(3),), drive=lambda f, x: _run(_collect(f(x))))
async def async_generator_function(x):
    for i in range(3):
        x = x * 2
        await asyncio.sleep(0)
        yield x


async def _collect(generator):
    return [x async for x in generator]


@case(lambda: (t(3),), drive=lambda f, x: _run(f(x)))
async def error_in_coroutine(x):
    y = await _double(x)
    try:
        await _fails(y)
    except ValueError as error:
        y = y + len(str(error))
    return await _fails(y)


async def _fails(x):
    raise ValueError("async")


@case(lambda: (t(3),))
def coroutine_driven_by_hand(x):
    async def one():
        return x + 1

    c = one()
    try:
        c.send(None)
    except StopIteration as stop:
        return stop.value * 2, inspect.iscoroutinefunction(one)


@case(lambda: (t(3),))
def runs_a_loop_inside(x):
    y = x + 1
    z = asyncio.run(_double(y))
    return z - x


@case(lambda: (t(3),), drive=lambda f, x: _run(_awaits_result(f, x)))
def called_inside_event_loop(x):
    return torch.relu(x) + 1


async def _awaits_result(f, x):
    y = f(x)
    z = await _double(y)
    return f(z)


@case(lambda: (t(3),), drive=lambda f, x: _run(f(x)))
def returns_coroutine(x):
    y = x * 3
    return _double(y)


@case(lambda: (t(3),), drive=lambda f, x: _run(_tasks(f, x)))
async def many_tasks(x, n):
    for _ in range(n):
        x = x + n
        await asyncio.sleep(0)
    return x


async def _tasks(f, x):
    return await asyncio.gather(*(f(x, n) for n in range(1, 4)))
