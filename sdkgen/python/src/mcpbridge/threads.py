"""Plain functions in threads. They are handed over, and what they return is handed back, as many at once as there are."""

import asyncio
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Seconds that a function waits for a thread that has just begun with another one, before it gets one of its own: to wake a
# thread costs more than most functions.
SOON = 0.001

_Job = tuple["asyncio.Future[Any]", contextvars.Context, Callable[..., Any], dict[str, Any]]
_Done = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Threads:
    """Runs the functions of one event loop in threads of a pool, no more than most at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor, most: int) -> None:
        self.loop = loop
        self.blocking = 0  # Functions that have not returned, even if their call is over.
        self._pool = pool
        self._most = most
        self._jobs: deque[_Job] = deque()
        self._done: deque[_Done] = deque()
        self._workers = 0
        self._began = 0.0  # When a thread last began with something, and may soon be ready for more.
        self._waiting = False  # Whether _more will be called.
        self._waking = False  # Whether _finish will be called.
        self._lock = threading.Lock()  # Guards blocking, jobs, workers and began.

    async def run(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """What fn returns. If the caller is cancelled, fn is not begun, or goes on by itself."""
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
        """Lets nobody wait for a function that takes its time."""
        self._waiting = False
        with contextlib.suppress(RuntimeError):  # The pool is shut down: their calls are being cancelled.
            self._hire(len(self._jobs))

    def _hire(self, wanted: int) -> None:
        with self._lock:
            wanted = min(wanted, self._most - self._workers)
            self._workers += wanted
            self._began = time.monotonic()
        for _ in range(wanted):
            self._pool.submit(self._work)

    def _work(self) -> None:
        """Runs functions as long as there are any. In a thread of the pool."""
        while True:
            with self._lock:
                if not self._jobs:
                    self._workers -= 1
                    self._began = 0.0  # The others may be at theirs for long.
                    return
                future, context, fn, arguments = self._jobs.popleft()
                self._began = time.monotonic()
                self.blocking += 1
            value: Any = None
            raised: BaseException | None = None
            try:
                if not future.cancelled():
                    value = context.run(fn, **arguments)
            except StopIteration as e:  # A future cannot hold it.
                raised = RuntimeError("the function raised StopIteration")
                raised.__cause__ = e
            except BaseException as e:
                raised = e
            with self._lock:
                self.blocking -= 1
            self._done.append((future, value, raised))
            if not self._waking:
                self._waking = True
                with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits.
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
