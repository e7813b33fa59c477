"""Runs plain functions in threads. Functions and results are passed to and from the event loop in batches."""

import asyncio
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# The time in seconds that a function waits for a busy thread before another one is started: waking a thread costs more
# than most functions take.
START_DELAY = 0.001

_Task = tuple["asyncio.Future[Any]", contextvars.Context, Callable[..., Any], dict[str, Any]]
_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Threads:
    """Runs the functions of one event loop in threads of a pool, at most `most` at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor, limit: int) -> None:
        self.loop = loop
        self.blocking = 0  # Functions that have not returned, even if their calls have ended.
        self._pool = pool
        self._limit = limit
        self._tasks: deque[_Task] = deque()
        self._outcomes: deque[_Outcome] = deque()
        self._workers = 0
        self._last_start = 0.0  # When a thread last started a function.
        self._start_scheduled = False  # Whether a call of _start_delayed is scheduled.
        self._results_scheduled = False  # Whether a call of _set_results is scheduled.
        self._lock = threading.Lock()  # Guards blocking, tasks, workers and last_start.

    async def run(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Returns the result of fn. If the caller is canceled, fn is not started, or continues in the background."""
        future = self.loop.create_future()
        task = (future, contextvars.copy_context(), fn, arguments)
        with self._lock:
            self._tasks.append(task)
            recent = self._workers > 0 and time.monotonic() - self._last_start < START_DELAY
        if not recent:
            self._start_threads(1)
        elif not self._start_scheduled:
            self._start_scheduled = True
            self.loop.call_later(START_DELAY, self._start_delayed)
        return await future

    def _start_delayed(self) -> None:
        """Starts threads for the functions that are still waiting."""
        self._start_scheduled = False
        with contextlib.suppress(RuntimeError):  # The pool is shut down; the calls are being canceled.
            self._start_threads(len(self._tasks))

    def _start_threads(self, count: int) -> None:
        with self._lock:
            count = min(count, self._limit - self._workers)
            self._workers += count
            self._last_start = time.monotonic()
        for _ in range(count):
            self._pool.submit(self._run_tasks)

    def _run_tasks(self) -> None:
        """Runs functions until none is waiting. Runs in a thread of the pool."""
        while True:
            with self._lock:
                if not self._tasks:
                    self._workers -= 1
                    self._last_start = 0.0  # The other threads may run long functions.
                    return
                future, context, fn, arguments = self._tasks.popleft()
                self._last_start = time.monotonic()
                self.blocking += 1
            value: Any = None
            error: BaseException | None = None
            try:
                if not future.cancelled():
                    value = context.run(fn, **arguments)
            except StopIteration as e:  # A future does not accept it.
                error = RuntimeError("the function raised StopIteration")
                error.__cause__ = e
            except BaseException as e:
                error = e
            with self._lock:
                self.blocking -= 1
            self._outcomes.append((future, value, error))
            if not self._results_scheduled:
                self._results_scheduled = True
                with contextlib.suppress(RuntimeError):  # The loop is closed.
                    self.loop.call_soon_threadsafe(self._set_results)

    def _set_results(self) -> None:
        self._results_scheduled = False
        while self._outcomes:
            future, value, error = self._outcomes.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
