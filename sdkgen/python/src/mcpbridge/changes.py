"""Who listens for changes, and what each has still to be told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from mcpbridge import v1

List = Literal["tools", "prompts", "resources"]


class Changes:
    """The listeners of an App. What changes is told from any thread."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    def list_changed(self, which: List) -> None:
        for listener in tuple(self._listeners):
            listener.tell(which, None)

    def updated(self, uri: str) -> None:
        for listener in tuple(self._listeners):
            listener.tell("resources", uri)

    def listen(self, wanted: v1.SubscriptionFilter) -> "Listener":
        """A listener for what is wanted. Its events end, and it is forgotten, at the end of `with`."""
        return Listener(self._listeners, wanted)

    def close(self) -> None:
        """Ends what all listeners are told. On their event loop only."""
        for listener in tuple(self._listeners):
            listener.close()


class Listener:
    """One Listen. What it has still to be told is a set, so that many changes of a thing are one, and room for all is enough.

    It belongs to the event loop it was made on.
    """

    def __init__(self, among: "set[Listener]", wanted: v1.SubscriptionFilter) -> None:
        self._among = among
        self._lists = {name for name in ("tools", "prompts", "resources") if getattr(wanted, f"{name}_list_changed")}
        self._uris = frozenset(wanted.resource_subscriptions)
        self._pending: dict[tuple[List, str | None], None] = {}
        self._woken = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "Listener":
        self._among.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._among.discard(self)

    def tell(self, which: List, uri: str | None) -> None:
        if uri in self._uris or (uri is None and which in self._lists):
            try:
                self._loop.call_soon_threadsafe(self._put, which, uri)
            except RuntimeError:  # The loop is closed: nobody listens any more.
                self._among.discard(self)

    def _put(self, which: List, uri: str | None) -> None:
        self._pending[which, uri] = None
        self._woken.set()

    def close(self) -> None:
        """Ends the events."""
        self._closed = True
        self._woken.set()

    async def events(self) -> AsyncIterator[v1.ListenResponse]:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._pending and not self._closed:
                which, uri = next(iter(self._pending))  # The oldest.
                del self._pending[which, uri]
                yield _event(which, uri)
            if self._closed:
                return


def _event(which: List, uri: str | None) -> v1.ListenResponse:
    if uri is not None:
        return v1.ListenResponse(resource_updated=v1.ResourceUpdated(uri=uri))
    event = v1.ListenResponse()
    getattr(event, f"{which}_list_changed").SetInParent()
    return event
