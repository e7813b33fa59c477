"""Plain functions run concurrently, up to the number of threads, whether they wait, compute or return at once."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcpbridge import App
from mcpbridge.testing import call
from mcpbridge.threads import Threads

LIMIT = 4


class Pool(ThreadPoolExecutor):
    """A pool that counts the submitted functions."""

    submitted = 0

    def submit(self, *arguments: Any, **more: Any) -> Any:
        self.submitted += 1
        return super().submit(*arguments, **more)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(LIMIT) as pool:
        yield pool


def threads_of(pool: ThreadPoolExecutor) -> Threads:
    return Threads(asyncio.get_running_loop(), pool, LIMIT)


async def test_each_call_gets_its_own_result(pool: Pool) -> None:
    threads = threads_of(pool)

    def double(n: int) -> int:
        if n % 100 == 0:
            time.sleep(0.001)
        if n % 7 == 0:
            raise ValueError(n)
        return 2 * n

    async def run(n: int) -> Any:
        try:
            return await threads.run(double, {"n": n})
        except ValueError as e:
            return e.args[0]

    for _ in range(10):
        assert await asyncio.gather(*map(run, range(1000))) == [n if n % 7 == 0 else 2 * n for n in range(1000)]
    assert threads.blocking == 0


async def test_functions_that_wait_for_each_other_run_concurrently(pool: Pool) -> None:
    threads = threads_of(pool)
    for _ in range(20):
        barrier = threading.Barrier(LIMIT, timeout=10)
        await asyncio.gather(*(threads.run(barrier.wait, {}) for _ in range(LIMIT)))


async def test_a_blocked_function_blocks_no_other(pool: Pool) -> None:
    threads = threads_of(pool)
    go = threading.Event()
    stuck = [asyncio.create_task(threads.run(go.wait, {"timeout": 10})) for _ in range(LIMIT - 1)]
    for n in range(100):
        assert await threads.run(lambda n: n, {"n": n}) == n
    go.set()
    assert await asyncio.gather(*stuck) == [True] * (LIMIT - 1)


async def test_the_limit_of_threads_is_kept(pool: Pool) -> None:
    threads = threads_of(pool)
    lock, running, highest = threading.Lock(), 0, 0
    queued = threading.Event()  # Otherwise a thread of a busy machine finds the queue empty in between, and ends.

    def work() -> None:
        nonlocal running, highest
        queued.wait()
        with lock:
            running += 1
            highest = max(highest, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    async def release() -> None:
        queued.set()

    await asyncio.gather(*(threads.run(work, {}) for _ in range(10 * LIMIT)), release())
    assert (highest, pool.submitted) == (LIMIT, LIMIT), "a thread was started without a function"


async def test_a_canceled_function_does_not_start(pool: Pool) -> None:
    threads = threads_of(pool)
    go, started = threading.Event(), threading.Event()
    stuck = [asyncio.create_task(threads.run(go.wait, {"timeout": 10})) for _ in range(LIMIT)]
    waits = asyncio.create_task(threads.run(started.set, {}))
    while threads.blocking < LIMIT:
        await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    go.set()
    await asyncio.gather(*stuck)
    assert await threads.run(lambda: "goes on", {}) == "goes on"
    assert not started.is_set()


async def test_a_function_counts_after_its_caller_was_canceled(pool: Pool) -> None:
    threads = threads_of(pool)
    go = threading.Event()
    task = asyncio.create_task(threads.run(go.wait, {"timeout": 10}))
    while not threads.blocking:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.blocking == 1
    go.set()
    while threads.blocking:
        await asyncio.sleep(0)


async def test_stop_iteration_is_converted(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match="the function raised StopIteration"):
        await threads_of(pool).run(lambda: next(iter(())), {})


async def test_each_function_has_the_context_of_its_caller(pool: Pool) -> None:
    threads = threads_of(pool)
    caller: contextvars.ContextVar[int] = contextvars.ContextVar("who")

    async def run(n: int) -> int:
        caller.set(n)
        got = await threads.run(caller.get, {})
        await threads.run(lambda: caller.set(-1), {})
        assert caller.get() == n
        return int(got)

    assert await asyncio.gather(*map(run, range(100))) == list(range(100))


def test_an_app_outlives_an_event_loop() -> None:
    app = App("test")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    for n in range(3):
        assert asyncio.run(call(app, "add", {"a": n, "b": 1})).text == str(n + 1)
