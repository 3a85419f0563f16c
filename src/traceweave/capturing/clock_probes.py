"""Exchanges of probes between processes, which tell how far apart their clocks are.

A probe leaves one process, is answered at once by another, and both note when by CLOCK_REALTIME,
which is also the clock of the profiler's events. Whatever the network does, the request arrived
after it was sent and so did the answer: every exchange proves the distance of the two clocks to
within half of its round trip.

Every process asks the leader of its host, and every leader that of another host: all ask the first
one, above 256 hosts along a tree. Raw TCP without delay: 17 us for a round trip on one host, where
gloo's send and recv take 130 us.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceweave.capturing.meeting import Meeting

FAN_OUT = 256
EXCHANGES = 50
PATIENCE_S = 10.0
"""Longest wait for an answer: the one who is asked serves one process after the other."""
_CONNECT_S = 2.0
_TOKEN_BYTES = 16
_ANSWER = struct.Struct("!qq")

Exchange = tuple[int, int, int, int]
"""When the request left and arrived, when the answer left and arrived; ns since the Unix epoch,
the first and the last by the clock of who asked."""


@dataclass(frozen=True)
class Probes:
    """Exchanges of this rank with another."""

    peer: int
    times: list[Exchange]


class ProbeTree:
    """This process's place among those that exchange probes."""

    def __init__(self, meeting: Meeting, rank: int, host: str) -> None:
        """Take a place; comes before the ranks agree, so that all know all places after."""
        self._meeting = meeting
        self._rank = rank
        self._server: ProbeServer | None = None
        self._leader = meeting.first(f"leader of {host}")
        self._place: int | None = None
        if self._leader == rank:
            self._place = meeting.take_number("hosts")
            meeting.tell(f"host/{self._place}", str(rank))
            self._server = ProbeServer()
            meeting.tell(f"address/{rank}", self._server.address)

    def exchange(self) -> list[Probes]:
        """Ask whom this process is to ask, while a thread answers those that ask it."""
        if self._server is not None:
            self._server.serve()
        peer = self._peer()
        if peer is None:
            return []
        address = self._meeting.ask(f"address/{peer}")
        return [Probes(peer, ask(address))] if address else []

    def pause(self) -> None:
        """Answer nobody until the next exchange."""
        if self._server is not None:
            self._server.pause()

    def close(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()

    def _peer(self) -> int | None:
        if self._place is None:
            return self._leader
        if self._place == 0:
            return None
        told = self._meeting.ask(f"host/{parent_of(self._place)}")
        return None if told is None else int(told)


def parent_of(place: int) -> int:
    """Whom the host at this place asks: the first one, as long as there are no more than 256."""
    return (place - 1) // FAN_OUT


class ProbeServer:
    """Answers probes, one process after the other, in a thread that lives during exchanges only.

    Listens on all interfaces and answers nobody who does not bring the token that was told over the
    job's store.
    """

    def __init__(self) -> None:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._socket = socket.create_server(
            ("", 0), family=family, backlog=1024, dualstack_ipv6=dual
        )
        self._socket.settimeout(0.02)
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._pausing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Where it can be reached, as text for `ask`."""
        port = self._socket.getsockname()[1]
        return json.dumps({"names": own_names(), "port": port, "token": self._token.hex()})

    def serve(self) -> None:
        """Begin to answer."""
        self._pausing.clear()
        self._thread = threading.Thread(target=self._run, name="traceweave-probes", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop answering."""
        self._pausing.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def close(self) -> None:
        """Stop answering, and listening."""
        self._pausing.set()
        self._socket.close()

    def _run(self) -> None:
        while not self._pausing.is_set():
            with suppress(OSError):
                connection, _ = self._socket.accept()
                with connection:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(1.0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not secrets.compare_digest(_read(connection, _TOKEN_BYTES), self._token):
            return
        connection.sendall(self._token)
        while connection.recv(1):
            heard = time.time_ns()
            connection.sendall(_ANSWER.pack(heard, time.time_ns()))


def ask(address: str, count: int = EXCHANGES) -> list[Exchange]:
    """Return `count` exchanges with a ProbeServer, none if it cannot be reached."""
    where = json.loads(address)
    token = bytes.fromhex(where["token"])
    for name in where["names"]:
        with (
            suppress(OSError),
            socket.create_connection((name, where["port"]), timeout=_CONNECT_S) as connection,
        ):
            connection.settimeout(PATIENCE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(token)
            if _read(connection, _TOKEN_BYTES) == token:
                return [_exchange(connection) for _ in range(count)]
    return []


def _exchange(connection: socket.socket) -> Exchange:
    asked = time.time_ns()
    connection.send(b"?")
    answer = connection.recv(_ANSWER.size)
    received = time.time_ns()
    if len(answer) < _ANSWER.size:
        answer += _read(connection, _ANSWER.size - len(answer))
    heard, answered = _ANSWER.unpack(answer)
    return asked, heard, answered, received


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ConnectionError("closed")
        found += more
    return found


def own_names() -> list[str]:
    """Names and addresses under which others may reach this host, the most likely one first.

    What the host calls itself may lead to its loopback; only who brings the token has reached it.
    """
    master = os.environ.get("MASTER_ADDR")
    names = [_address_towards(master)] if master else []
    names += [socket.gethostname(), master or "localhost", "localhost"]
    return list(dict.fromkeys(name for name in names if name))


def _address_towards(name: str) -> str | None:
    """The address of this host on the way to another; nothing is sent."""
    with suppress(OSError):
        found = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    return None
