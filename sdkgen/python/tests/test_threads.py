"""Plain functions run beside one another, as many as there are threads, whether they wait, compute or return at once."""

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

MOST = 4


class Pool(ThreadPoolExecutor):
    """A pool that counts what it is asked to do."""

    asked = 0

    def submit(self, *arguments: Any, **more: Any) -> Any:
        self.asked += 1
        return super().submit(*arguments, **more)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(MOST) as pool:
        yield pool


def threads_of(pool: ThreadPoolExecutor) -> Threads:
    return Threads(asyncio.get_running_loop(), pool, MOST)


async def test_each_gets_its_own_result(pool: Pool) -> None:
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


async def test_those_that_wait_for_one_another_run_together(pool: Pool) -> None:
    threads = threads_of(pool)
    for _ in range(20):
        together = threading.Barrier(MOST, timeout=10)
        await asyncio.gather(*(threads.run(together.wait, {}) for _ in range(MOST)))


async def test_one_that_is_stuck_holds_up_none(pool: Pool) -> None:
    threads = threads_of(pool)
    go = threading.Event()
    stuck = [asyncio.create_task(threads.run(go.wait, {"timeout": 10})) for _ in range(MOST - 1)]
    for n in range(100):
        assert await threads.run(lambda n: n, {"n": n}) == n
    go.set()
    assert await asyncio.gather(*stuck) == [True] * (MOST - 1)


async def test_there_are_no_more_at_a_time_than_may_be(pool: Pool) -> None:
    threads = threads_of(pool)
    lock, running, most = threading.Lock(), 0, 0
    queued = threading.Event()  # Otherwise a thread of a busy machine finds the queue empty in between, and ends.

    def work() -> None:
        nonlocal running, most
        queued.wait()
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    async def release() -> None:
        queued.set()

    await asyncio.gather(*(threads.run(work, {}) for _ in range(10 * MOST)), release())
    assert (most, pool.asked) == (MOST, MOST), "none is left that finds nothing to do"


async def test_a_cancelled_one_does_not_begin(pool: Pool) -> None:
    threads = threads_of(pool)
    go, begun = threading.Event(), threading.Event()
    stuck = [asyncio.create_task(threads.run(go.wait, {"timeout": 10})) for _ in range(MOST)]
    waits = asyncio.create_task(threads.run(begun.set, {}))
    while threads.blocking < MOST:
        await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    go.set()
    await asyncio.gather(*stuck)
    assert await threads.run(lambda: "goes on", {}) == "goes on"
    assert not begun.is_set()


async def test_one_whose_caller_has_gone_still_counts(pool: Pool) -> None:
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


async def test_what_cannot_be_an_exception_of_a_future(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match="the function raised StopIteration"):
        await threads_of(pool).run(lambda: next(iter(())), {})


async def test_each_has_the_context_of_its_caller(pool: Pool) -> None:
    threads = threads_of(pool)
    who: contextvars.ContextVar[int] = contextvars.ContextVar("who")

    async def run(n: int) -> int:
        who.set(n)
        got = await threads.run(who.get, {})
        await threads.run(lambda: who.set(-1), {})
        assert who.get() == n
        return int(got)

    assert await asyncio.gather(*map(run, range(100))) == list(range(100))


def test_an_app_outlives_an_event_loop() -> None:
    app = App("test")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    for n in range(3):
        assert asyncio.run(call(app, "add", {"a": n, "b": 1})).text == str(n + 1)
