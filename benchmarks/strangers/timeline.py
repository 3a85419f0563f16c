"""When every rank does what, in true time (us): streams in order, hosts that run ahead, waiting.

A rank is a coroutine over its program. It stops where a moment is needed that other ranks decide,
the end of a collective, and goes on when they have all begun it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .program import (
    BYTES,
    Collective,
    Compute,
    Group,
    HostSync,
    Message,
    Messages,
    Op,
    StepBegin,
    Wait,
)
from .skews import Skews

COMPUTE_STREAM = 7
LAUNCH_US = 4.0


@dataclass(frozen=True)
class Network:
    """Bandwidths in bytes per us, and what a call costs whatever its size, us."""

    inside: float = 150e3
    between: float = 30e3
    latency_us: float = 18.0
    noise: float = 0.04
    congestion: float = 0.02
    eager_bytes: int = 64 << 10


@dataclass(frozen=True)
class Habits:
    """How ranks differ: compute noise, stragglers, hiccups of hosts, and how torch runs calls."""

    noise: float = 0.02
    straggler: float = 1.03
    hiccups: float = 0.002
    hiccup_us: float = 3000.0
    inline: bool = False
    """Calls that the computation waits for at once run on its own stream (torch since 2.7)."""


@dataclass
class Shared:
    """One true operation of several ranks: a collective, or a message."""

    number: int
    op: str
    members: tuple[int, ...]
    bytes: int
    starts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)


@dataclass
class Kernel:
    """A kernel and the call that launched it; `parts` are empty for computation."""

    stream: int
    issued: float
    launched: float
    start: float
    end: float
    step: int
    backward: bool
    parts: list[Shared] = field(default_factory=list)
    group: Group | None = None
    ranks: tuple[int, ...] = ()
    op: str = "compute"
    sent: int = 0
    received: int = 0
    dtype: str = ""
    seq: int = 0
    messages: tuple[Message, ...] = ()
    batched: bool = False


@dataclass
class Track:
    """What one rank did."""

    kernels: list[Kernel] = field(default_factory=list)
    steps: list[tuple[int, float]] = field(default_factory=list)


class World:
    """All ranks of a job while it runs."""

    def __init__(
        self,
        programs: Sequence[Sequence[Op]],
        hosts: Sequence[int],
        network: Network,
        habits: Habits,
        skews: Skews,
        rng: np.random.Generator,
    ) -> None:
        self.programs, self.hosts = programs, hosts
        self.network, self.habits, self.skews, self.rng = network, habits, skews, rng
        self.shared: dict[tuple[object, ...], Shared] = {}
        self.tracks = [Track() for _ in programs]
        self.streams: list[dict[object, int]] = [{} for _ in programs]
        speeds = np.exp(rng.normal(0, 0.005, len(programs)))
        speeds[rng.integers(len(programs))] *= habits.straggler
        self.speeds = speeds

    def run(self) -> list[Track]:
        """Let every rank run to its end."""
        waiting = {rank: self._rank(rank) for rank in range(len(self.programs))}
        while waiting:
            before = sum(len(t.kernels) for t in self.tracks), len(waiting)
            for rank, runner in list(waiting.items()):
                for shared in runner:
                    if not shared.ends:
                        break
                else:
                    del waiting[rank]
            if waiting and before == (sum(len(t.kernels) for t in self.tracks), len(waiting)):
                raise RuntimeError(f"ranks {sorted(waiting)} wait for each other")
        return self.tracks

    def _rank(self, rank: int) -> Generator[Shared, None, None]:
        rng, habits, track = self.rng, self.habits, self.tracks[rank]
        counts: dict[object, int] = {}
        tails: dict[object, Kernel] = {}
        tagged: dict[str, Kernel] = {}
        host = float(rng.uniform(0, 300))
        ready = 0.0
        step = -1
        for op in self.programs[rank]:
            if rng.random() < habits.hiccups:
                host += float(rng.exponential(habits.hiccup_us))
            if isinstance(op, Compute):
                for _ in range(op.parts):
                    issued, host = host, host + float(rng.uniform(8, 20))
                    start = max(issued + LAUNCH_US + float(rng.exponential(1)), ready + 0.8)
                    us = op.us / op.parts * self.speeds[rank]
                    ready = start + float(us * np.exp(rng.normal(0, habits.noise)))
                    track.kernels.append(
                        Kernel(COMPUTE_STREAM, issued, issued + 3, start, ready, step, op.backward)
                    )
            elif isinstance(op, Wait):
                ready = max(ready, (yield from _end(tagged.pop(op.tag), rank)))
            elif isinstance(op, HostSync):
                host = max(host, ready) + float(rng.uniform(15, 40)) + op.pause_us
            elif isinstance(op, StepBegin):
                step = op.number
                track.steps.append((step, host))
                host += 5
            else:
                awaited = []
                for call in self._calls(op, rank, counts):
                    lane, stream = self._places(op, call, rank)
                    issued, host = host, host + float(rng.uniform(45, 90))
                    start = max(issued + 40 + LAUNCH_US, ready + 1 + float(rng.exponential(1)))
                    for tail in [tails[place] for place in (lane, stream) if place in tails]:
                        start = max(start, (yield from _end(tail, rank)) + 1.2)
                    call.stream, call.step = stream, step
                    call.issued, call.launched, call.start = issued, issued + 38, start
                    track.kernels.append(call)
                    tails[lane] = tails[stream] = call
                    for part in call.parts:
                        self._begin(part, rank, start)
                    if isinstance(op, Collective) and op.tag:
                        tagged[op.tag] = call
                    else:
                        awaited.append(call)
                for call in awaited:
                    ready = max(ready, (yield from _end(call, rank)))
        for tail in tails.values():
            yield from _end(tail, rank)

    def _calls(
        self, op: Collective | Messages, rank: int, counts: dict[object, int]
    ) -> list[Kernel]:
        if isinstance(op, Collective):
            n = counts[op.group] = counts.get(op.group, 36) + 1
            size = len(op.group.ranks)
            sent = received = op.elements
            if op.op == "all_gather":
                sent //= size
            elif op.op == "reduce_scatter":
                received //= size
            if op.ragged:
                sent, received = (int(op.elements * f) for f in self.rng.uniform(0.6, 1.4, 2))
            part = self._of((op.group, n), op.op, op.group.ranks, op.elements * BYTES[op.dtype])
            return [_call(op, op.group, [part], op.group.ranks, op.op, sent, received, n)]
        calls, parts = [], []
        for message in op.parts:
            ends = (rank, message.peer) if message.sends else (message.peer, rank)
            key = (message.group, *ends)
            counts[key] = counts.get(key, 0) + 1
            bytes_ = message.elements * BYTES[op.dtype]
            part = self._of((*key, counts[key]), "send", ends, bytes_)
            parts.append(part)
            if not op.batched:
                counts["p2p", message.group] = n = counts.get(("p2p", message.group), 0) + 1
                name = "send" if message.sends else "recv"
                pair = tuple(sorted(ends))
                call = _call(
                    op, message.group, [part], pair, name, message.elements, message.elements, n
                )
                call.messages = (message,)
                calls.append(call)
        if op.batched:
            group = op.parts[0].group
            calls = [_call(op, group, parts, group.ranks, "batch", 0, 0, 0)]
            calls[0].messages, calls[0].batched = op.parts, True
        return calls

    def _of(
        self, key: tuple[object, ...], op: str, members: tuple[int, ...], bytes_: int
    ) -> Shared:
        if key not in self.shared:
            self.shared[key] = Shared(len(self.shared), op, members, bytes_)
        return self.shared[key]

    def _places(self, op: Collective | Messages, call: Kernel, rank: int) -> tuple[object, int]:
        """Return the communicator that calls take turns in, and the stream of the kernel."""
        lane: object = (call.group, call.ranks)
        if self.habits.inline and isinstance(op, Collective) and not op.tag and not op.stream:
            return lane, COMPUTE_STREAM
        stream = op.stream if isinstance(op, Collective) and op.stream else lane
        numbers = self.streams[rank]
        return lane, numbers.setdefault(stream, 20 + 4 * len(numbers))

    def _begin(self, shared: Shared, rank: int, start: float) -> None:
        """Note that a rank has begun; the last one decides when all of them end."""
        shared.starts[rank] = start
        if len(shared.starts) < len(shared.members):
            return
        rng, network = self.rng, self.network
        last = max(shared.starts.values())
        across = len({self.hosts[r] for r in shared.members}) > 1
        transfer = network.latency_us * (1.5 if across else 1)
        transfer += shared.bytes / (network.between if across else network.inside)
        transfer *= float(np.exp(rng.normal(0, network.noise)))
        if across and rng.random() < network.congestion:
            transfer *= float(rng.uniform(1.2, 2))
        latest = max(range(len(shared.members)), key=lambda n: shared.starts[shared.members[n]])
        late = self.skews.draw(rng, transfer, len(shared.members), latest)
        for member, lag in zip(shared.members, late, strict=True):
            shared.ends[member] = last + max(transfer + float(lag), 0.3 * transfer + 2)
        if shared.op == "send" and shared.bytes <= network.eager_bytes:
            shared.ends[shared.members[0]] = shared.starts[shared.members[0]] + transfer


def _call(
    op: Collective | Messages,
    group: Group,
    parts: list[Shared],
    ranks: tuple[int, ...],
    name: str,
    sent: int,
    received: int,
    seq: int,
) -> Kernel:
    return Kernel(
        0, 0, 0, 0, 0, 0, op.backward, parts, group, ranks, name, sent, received, op.dtype, seq
    )


def _end(kernel: Kernel, rank: int) -> Generator[Shared, None, float]:
    """Wait until all parts of a kernel have ended; return when."""
    for part in kernel.parts:
        while not part.ends:
            yield part
    kernel.end = max([part.ends[rank] for part in kernel.parts])
    return kernel.end
