"""Compiled functions called from threads, and threads used inside."""

import concurrent.futures
import contextvars
import queue
import threading

import torch

from tests.capture.case import case, maker, t

LOCAL = threading.local()
VARIABLE = contextvars.ContextVar("VARIABLE", default=1)


def _in_threads(f, *calls):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [future.result() for future in [pool.submit(f, *call) for call in calls]]


@case(lambda: (t(3), 2), drive=lambda f, x, n: _in_threads(f, *[(x + i, n) for i in range(8)]))
def called_from_many(x, n):
    for i in range(3):
        x = x * n + i
    return x


@case(lambda: (t(3),), drive=lambda f, x: _in_threads(f, *[(torch.ones(n), n) for n in range(1, 7)]))
def different_shapes(x, n):
    return x * n + x.shape[0]


@case(lambda: (t(3),), drive=lambda f, x: _in_threads(f, *[(x, n) for n in range(6)]))
def error_in_thread(x, n):
    try:
        y = x / (6 // n)
    except ZeroDivisionError:
        return "error"
    return y + 1


@case(lambda: (t(3),), drive=lambda f, x: _in_threads(f, *[(x,)] * 3))
def thread_local(x):
    LOCAL.n = getattr(LOCAL, "n", 0) or 5
    return x * LOCAL.n


@case(lambda: (t(3),))
def thread_inside(x):
    results = []
    y = x + 1
    worker = threading.Thread(target=lambda: results.append(y * 2))
    worker.start()
    worker.join()
    return results[0] + 1


@case(lambda: (t(3),))
def lock_inside(x):
    lock = threading.Lock()
    with lock:
        y = x + 1
        inside = lock.locked()
    return y * 2, inside, lock.locked()


@maker(lambda: (t(3),), drive=lambda f, x: sorted(int(v) for v in _in_threads(f, *[(x,)] * 8)))
def lock_around_counter():
    lock = threading.Lock()
    count = 0

    def f(x):
        nonlocal count
        with lock:
            count += 1
            mine = count
        return (x * 0 + mine)[0].item()

    return f


@case(lambda: (t(3),))
def queue_inside(x):
    q = queue.Queue()
    q.put(x + 1)
    q.put("s")
    return q.get() * 2, q.get(), q.empty()


@case(lambda: (t(3),))
def pool_inside(x):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(lambda n=n: x * n) for n in range(3)]
    return [f.result() for f in futures]


@case(lambda: (t(3),), drive=lambda f, x: (f(x), VARIABLE.set(4), f(x), VARIABLE.set(1)) and f(x))
def context_variable(x):
    return x * VARIABLE.get()


@case(lambda: (t(3),))
def context_variable_set_inside(x):
    token = VARIABLE.set(7)
    y = x * VARIABLE.get()
    VARIABLE.reset(token)
    return y, VARIABLE.get()


@case(lambda: (t(3),))
def name_of_thread(x):
    return x + 1, threading.current_thread().name, threading.main_thread() is threading.current_thread()


@case(lambda: (t(3),), drive=lambda f, x: _in_threads(lambda n: (f(x, n), torch.is_grad_enabled()), (0,), (1,)))
def grad_mode_of_thread(x, n):
    with torch.set_grad_enabled(n == 0):
        return x * 2, torch.is_grad_enabled()
