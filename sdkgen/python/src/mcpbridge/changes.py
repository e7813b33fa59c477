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
MAX_COMPLETED = 10_000


class Changes:
    """The listeners of an App. Changes may be reported from any thread."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    def notify(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener.notify(change)

    def listen(self, requested: v1.SubscriptionFilter) -> "Listener":
        """Returns a listener for these changes. It is removed at the end of `with`."""
        return Listener(self._listeners, requested)

    def close(self) -> None:
        """Closes all listeners. Must run on their event loop."""
        for listener in tuple(self._listeners):
            listener.close()


class Listener:
    """One Listen call. Its pending changes are a set: repeated changes are combined, and the size is bounded.

    It belongs to the event loop on which it was created.
    """

    def __init__(self, listeners: "set[Listener]", requested: v1.SubscriptionFilter) -> None:
        self._listeners = listeners
        self._subscribed: set[tuple[str, str]] = {("resource", uri) for uri in requested.resource_subscriptions}
        self._subscribed |= {("list", name) for name in LISTS if getattr(requested, f"{name}_list_changed")}
        self._elicitations = requested.elicitations_completed
        self._pending: dict[Change, None] = {}
        self._wake = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "Listener":
        self._listeners.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._listeners.discard(self)

    def notify(self, change: Change) -> None:
        if self._elicitations if change[0] == "visit" else change in self._subscribed:
            try:
                self._loop.call_soon_threadsafe(self._add, change)
            except RuntimeError:  # The loop is closed.
                self._listeners.discard(self)

    def _add(self, change: Change) -> None:
        if change[0] != "visit" or len(self._pending) < MAX_COMPLETED:
            self._pending[change] = None
            self._wake.set()

    def close(self) -> None:
        """Makes events return."""
        self._closed = True
        self._wake.set()

    async def events(self) -> AsyncIterator[v1.ListenResponse]:
        while True:
            await self._wake.wait()
            self._wake.clear()
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
