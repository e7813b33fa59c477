"""The listeners for changes, and the pending changes of each."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from mcpbridge import v1

List = Literal["tools", "prompts", "resources"]
LISTS: tuple[List, ...] = ("tools", "prompts", "resources")

# A changed list, an updated resource by its URI, or a completed URL elicitation by its id.
Change = tuple[Literal["list"], List] | tuple[Literal["resource", "visit"], str]

# The maximum number of pending completed URL elicitations of a listener. Other changes are bounded by its
# subscriptions.
MAX_VISITS = 10_000


class Changes:
    """The listeners of an App. Changes may be reported from any thread."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    def tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener.tell(change)

    def listen(self, wanted: v1.SubscriptionFilter) -> "Listener":
        """Returns a listener for these changes. It is removed at the end of `with`."""
        return Listener(self._listeners, wanted)

    def close(self) -> None:
        """Closes all listeners. Must run on their event loop."""
        for listener in tuple(self._listeners):
            listener.close()


class Listener:
    """One Listen call. Its pending changes are a set: repeated changes are combined, and the size is bounded.

    It belongs to the event loop on which it was created.
    """

    def __init__(self, among: "set[Listener]", wanted: v1.SubscriptionFilter) -> None:
        self._among = among
        self._wanted: set[tuple[str, str]] = {("resource", uri) for uri in wanted.resource_subscriptions}
        self._wanted |= {("list", name) for name in LISTS if getattr(wanted, f"{name}_list_changed")}
        self._visits = wanted.elicitations_completed
        self._pending: dict[Change, None] = {}
        self._woken = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "Listener":
        self._among.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._among.discard(self)

    def tell(self, change: Change) -> None:
        if self._visits if change[0] == "visit" else change in self._wanted:
            try:
                self._loop.call_soon_threadsafe(self._put, change)
            except RuntimeError:  # The loop is closed.
                self._among.discard(self)

    def _put(self, change: Change) -> None:
        if change[0] != "visit" or len(self._pending) < MAX_VISITS:
            self._pending[change] = None
            self._woken.set()

    def close(self) -> None:
        """Makes events return."""
        self._closed = True
        self._woken.set()

    async def events(self) -> AsyncIterator[v1.ListenResponse]:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._pending and not self._closed:
                change = next(iter(self._pending))  # The oldest.
                del self._pending[change]
                yield _event(change)
            if self._closed:
                return


def _event(change: Change) -> v1.ListenResponse:
    kind, name = change
    if kind == "resource":
        return v1.ListenResponse(resource_updated=v1.ResourceUpdated(uri=name))
    if kind == "visit":
        return v1.ListenResponse(elicitation_completed=v1.ElicitationCompleted(elicitation_id=name))
    event = v1.ListenResponse()
    getattr(event, f"{name}_list_changed").SetInParent()
    return event
