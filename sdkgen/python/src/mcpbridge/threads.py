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

# The time in seconds that a function waits for a busy thread before another one is started: waking a thread costs more than
# most functions take.
SOON = 0.001

_Job = tuple["asyncio.Future[Any]", contextvars.Context, Callable[..., Any], dict[str, Any]]
_Done = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Threads:
    """Runs the functions of one event loop in threads of a pool, at most `most` at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor, most: int) -> None:
        self.loop = loop
        self.blocking = 0  # Functions that have not returned, even if their calls have ended.
        self._pool = pool
        self._most = most
        self._jobs: deque[_Job] = deque()
        self._done: deque[_Done] = deque()
        self._workers = 0
        self._began = 0.0  # When a thread last started a function.
        self._waiting = False  # Whether a call of _more is scheduled.
        self._waking = False  # Whether a call of _finish is scheduled.
        self._lock = threading.Lock()  # Guards blocking, jobs, workers and began.

    async def run(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Returns the result of fn. If the caller is canceled, fn is not started, or continues in the background."""
        future = self.loop.create_future()
        job = (future, contextvars.copy_context(), fn, arguments)
        with self._lock:
            self._jobs.append(job)
            soon = self._workers > 0 and time.monotonic() - self._began < SOON
        if not soon:
            self._hire(1)
        elif not self._waiting:
            self._waiting = True
            self.loop.call_later(SOON, self._more)
        return await future

    def _more(self) -> None:
        """Starts threads for the functions that are still waiting."""
        self._waiting = False
        with contextlib.suppress(RuntimeError):  # The pool is shut down; the calls are being canceled.
            self._hire(len(self._jobs))

    def _hire(self, wanted: int) -> None:
        with self._lock:
            wanted = min(wanted, self._most - self._workers)
            self._workers += wanted
            self._began = time.monotonic()
        for _ in range(wanted):
            self._pool.submit(self._work)

    def _work(self) -> None:
        """Runs functions until none is waiting. Runs in a thread of the pool."""
        while True:
            with self._lock:
                if not self._jobs:
                    self._workers -= 1
                    self._began = 0.0  # The other threads may run long functions.
                    return
                future, context, fn, arguments = self._jobs.popleft()
                self._began = time.monotonic()
                self.blocking += 1
            value: Any = None
            raised: BaseException | None = None
            try:
                if not future.cancelled():
                    value = context.run(fn, **arguments)
            except StopIteration as e:  # A future does not accept it.
                raised = RuntimeError("the function raised StopIteration")
                raised.__cause__ = e
            except BaseException as e:
                raised = e
            with self._lock:
                self.blocking -= 1
            self._done.append((future, value, raised))
            if not self._waking:
                self._waking = True
                with contextlib.suppress(RuntimeError):  # The loop is closed.
                    self.loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        self._waking = False
        while self._done:
            future, value, raised = self._done.popleft()
            if future.done():
                continue
            if raised is None:
                future.set_result(value)
            else:
                future.set_exception(raised)
