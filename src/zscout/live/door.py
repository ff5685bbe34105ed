"""Who may hold a connection: few strangers, not for long, and never so many of all that files run out."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

from uvicorn.protocols.http.h11_impl import H11Protocol

from zscout.live.limits import Limits

Address: TypeAlias = tuple[str, int]  # host and port: one for each connection


@dataclass(eq=False)
class Guest:
    """One connection."""

    transport: asyncio.Transport
    expires: asyncio.TimerHandle | None  # None once the token was shown

    def stay(self) -> None:
        """No timer ends it any more."""
        if self.expires is not None:
            self.expires.cancel()
            self.expires = None


class Door:
    """Counts connections from when they are made, before a byte is read.

    Whoever has not shown the token is a stranger. Strangers have a few seconds, and there is room for a few of them:
    one more takes the place of the oldest, of the host that has most. So a visitor, who shows the token at once, gets
    in however many others are silent.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._guests: dict[Address, Guest] = {}  # the oldest first

    @property
    def strangers(self) -> list[Address]:
        """Those who have not shown the token, the oldest first."""
        return [address for address, guest in self._guests.items() if guest.expires is not None]

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, address: Address, transport: asyncio.Transport) -> None:
        """A connection was made; some other one may have to go for it, or this one if all others showed the token."""
        self._forget_closed()
        strangers = self.strangers
        if len(strangers) >= self._limits.strangers:
            most, _ = Counter(host for host, _ in strangers).most_common(1)[0]
            self._turn_out(next(other for other in strangers if other[0] == most))
        elif len(self._guests) >= self._limits.connections:
            transport.abort()
            return
        expires = asyncio.get_running_loop().call_later(self._limits.unknown, self._turn_out, address)
        self._guests[address] = Guest(transport, expires)

    def admit(self, address: Address | None) -> None:
        """It has shown the token."""
        guest = None if address is None else self._guests.get(address)
        if guest is not None:
            guest.stay()

    def protocol(self) -> type[H11Protocol]:
        """For uvicorn: its own protocol, which tells this door of each connection."""
        door = self

        class Guarded(H11Protocol):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                if self.client is not None:
                    door.enter(self.client, transport)

        return Guarded

    def _turn_out(self, address: Address) -> None:
        guest = self._guests.pop(address, None)
        if guest is not None:
            guest.stay()
            guest.transport.abort()

    def _forget_closed(self) -> None:
        # The transport knows: a WebSocket replaces the protocol object that saw the connection begin.
        for address in [address for address, guest in self._guests.items() if guest.transport.is_closing()]:
            self._guests.pop(address).stay()
