"""What the lines of a log come to: communicators, calls and choices, each of whom.

Lines of many processes may be mixed; each is told by its header, and a communicator by its address
in its process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from traceweave.sources.nccl_logs.lines import Header, messages
from traceweave.sources.nccl_logs.records import (
    FACTS,
    Begun,
    Call,
    Choice,
    Facts,
    Record,
    count,
    read,
)

_MOST_CALLED = 200_000
"""Different calls of a process that are known when it chooses."""

_SHOWN_BYTES = 200

Process = tuple[str | None, int]
"""Host and process id; the host is None where lines of several hosts may have run together."""


@dataclass
class Communicator:
    """What one process says of one of its communicators."""

    number: int
    process: Process
    begun: Begun
    identity: str | None
    """The same in all processes of the communicator; None if the log does not tell."""
    facts: Facts = field(default_factory=lambda: dict.fromkeys(FACTS))


Row = dict[str, Any]


class Log:
    """A log as far as it was read.

    Attributes:
        calls, choices: since somebody took them away, by the columns of base.nccl_calls and
            base.nccl_choices.
        stored: messages that were read.
        lost: messages of the kinds that are read that were too damaged, by why.
        example: one of them.
    """

    def __init__(self) -> None:
        self.communicators: list[Communicator] = []
        self.calls: list[Row] = []
        self.choices: list[Row] = []
        self.devices: dict[Process, str] = {}
        self.stored = 0
        self.lost: dict[str, int] = {}
        self.example: str | None = None
        self._line = 0
        self._hosts: dict[int, set[str]] = {}
        self._processes: dict[Process, _Process] = {}
        self._calls_are_whole = True

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take lines into account, in the order of the file."""
        for line in lines:
            self._line += 1
            for header, text in messages(line):
                record = None if header is None else read(text)
                if record is not None and header is not None:
                    self.stored += 1
                    self._take(header, record)
                # what another writer cut in two, or into, is counted by the words it begins with
                if (left := count(text) - isinstance(record, Begun | Call | Choice)) > 0:
                    self._lose(header, text, left)

    def communicator_rows(self) -> list[Row]:
        """Return the communicators by the columns of base.nccl_communicators."""
        return [
            {
                "number": c.number, "host": c.process[0], "pid": c.process[1],
                "identity": c.identity, "place": c.begun.place, "size": c.begun.size,
                "device": c.begun.device, "devices": self.devices.get(c.process), **c.facts,
            }
            for c in self.communicators
        ]  # fmt: skip

    def _lose(self, header: Header | None, text: bytes, messages_: int) -> None:
        why = "line without a beginning" if header is None else "line cut off"
        self.lost[why] = self.lost.get(why, 0) + messages_
        self._calls_are_whole = False
        if self.example is None:
            self.example = text[:_SHOWN_BYTES].decode("utf-8", "replace")

    def _take(self, header: Header, record: Record) -> None:
        process = self._process(header)
        match record:
            case Call():
                self._call(process, record)
            case Choice():
                self._choose(process, record)
            case Begun():
                self._begin(process, header.tid, record)
            case {"gone": pointer}:
                process.alive.pop(pointer, None)
            case {"pointer": pointer, "nodes": nodes, "local_ranks": local}:
                if pointer in process.alive:
                    process.alive[pointer].facts |= {"nodes": nodes, "local_ranks": local}
            case {"devices": names}:
                self.devices[process.name] = names
            case dict():
                process.said.setdefault(header.tid, {}).update(record)
                process.network = record.get("network", process.network)

    def _process(self, header: Header) -> _Process:
        """Return who wrote a message. A host's name that something may have run into is the one
        that is known for the process id, if there is one.
        """
        hosts = self._hosts.setdefault(header.pid, set())
        host: str | None = header.host
        if header.is_whole:
            hosts.add(header.host)
        elif hosts and header.host not in hosts:
            host = next(iter(hosts)) if len(hosts) == 1 else None
        name = (host, header.pid)
        return self._processes.setdefault(name, _Process(name))

    def _begin(self, process: _Process, tid: int, begun: Begun) -> None:
        of = process.alive.get(begun.pointer)
        if of is None or of.begun.is_ready or of.begun.member != begun.member:
            number = len(self.communicators)
            of = Communicator(number, process.name, begun, _identity(process, begun))
            self.communicators.append(of)
            process.alive[begun.pointer] = of
        of.begun = begun
        if begun.is_ready:
            of.facts["network"] = process.network
            of.facts |= process.said.pop(tid, {})

    def _call(self, process: _Process, call: Call) -> None:
        of = process.alive.get(call.pointer)
        self.calls.append({
            "host": process.name[0], "pid": process.name[1], "number": of and of.number,
            "name": call.op, "count": call.count, "dtype": call.dtype, "bytes": call.bytes,
            "line": self._line,
        })  # fmt: skip
        if of is not None and of.begun.place == 0:
            self._calls_are_whole &= len(process.called) < _MOST_CALLED
        if of is not None and of.begun.place == 0 and self._calls_are_whole:
            process.called.setdefault((call.op, True, call.bytes), set()).add(of.number)
            whole = call.bytes * (of.begun.size if call.op in _PER_RANK else 1)
            process.called.setdefault((call.op, False, whole), set()).add(of.number)

    def _choose(self, process: _Process, choice: Choice) -> None:
        """Note a choice with the communicators that it may be of: the process's own in which it is
        rank 0, which alone writes them; where calls are logged, those that had this one.
        """
        may = {c.number for c in process.alive.values() if c.begun.place == 0}
        if self._calls_are_whole and choice.name is not None:
            may &= process.called.get((choice.name, choice.per_rank, choice.bytes), may)
        self.choices.append({
            "host": process.name[0], "pid": process.name[1], "numbers": sorted(may),
            **vars(choice), "line": self._line,
        })  # fmt: skip


_PER_RANK = frozenset({"AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter"})
"""Calls whose count is that of one rank."""


@dataclass
class _Process:
    """What is known of a process at some line of the log."""

    name: Process
    alive: dict[str, Communicator] = field(default_factory=dict)
    """Its communicators by their addresses, which are used again."""
    said: dict[int, Facts] = field(default_factory=dict)
    """What its threads said since they last made a communicator."""
    network: int | float | str | None = None
    """What it said last; old versions say it once."""
    called: dict[tuple[str, bool, int], set[int]] = field(default_factory=dict)
    """Communicators of which it is rank 0, by what was called on them."""


def _identity(process: _Process, begun: Begun) -> str | None:
    if begun.parent is None:
        return begun.hash
    parent = process.alive.get(begun.parent)
    if parent is None or parent.identity is None or begun.split is None:
        return None
    return f"{parent.identity} {begun.split}"
