"""What the formats and the rest of the program say to each other about trace files.

What a format offers is in formats.py. Its `load` depends on the file alone and writes to the
connection alone, so it runs in a thread here and could run on another machine. It fills the staging
tables of staging.sql and calls `derive.finish`, which links and nests the events the same way for
every format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

OP_IDS_PER_SOURCE = 1_000_000_000
"""op_id = source_id * this + position of the event in its file."""

WALL_CLOCK_NS = 10**18
"""In 2001: earlier times count from a boot or the start of a recording, and date nothing."""

Report = Callable[[int], None]
"""Progress: called with the number of bytes of the file on disk that were read since the last
call.
"""


@dataclass(frozen=True)
class Process:
    """A process of a trace that may be a rank: a Kineto file has one, an nsys report several."""

    key: int
    """Names the process inside its file: 0 for Kineto, globalPid for nsys."""
    rank: int | None = None
    """Global rank; None if the file itself does not tell."""
    rank_source: str | None = None
    """The evidence for `rank`, in words for the user: 'distributedInfo', 'file name', '--rank' ...
    """
    world_size: int | None = None
    host: str | None = None
    pid: int | None = None
    device: int | None = None
    gpu_name: str | None = None
    gpu_names: tuple[tuple[int, str], ...] = ()
    """(device number, product name) of the devices of its host, where `device` is only known after
    loading.
    """
    backend: str | None = None
    nccl_version: str | None = None
    recording: int | None = None
    """Which of the recordings of its rank this is, from 0 in order of time; None if the only one.
    """


@dataclass(frozen=True)
class Step:
    """A step of the training loop that a file marks, on the file's own clock."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Beginning:
    """The part of a recording that there would be if it had been stopped early."""

    end_ns: int
    """When, on the file's own clock."""
    device_ns: int
    """Until then the device may still run what was launched before."""


@dataclass(frozen=True)
class Trace:
    """One trace file as far as its head and tail tell; the unit of loading."""

    path: Path
    format: str
    """'kineto', 'nsys', 'capture', 'flight_recorder', 'nccl_log' or 'nccl_inspector'."""
    size_bytes: int
    processes: tuple[Process, ...]
    producer: str | None = None
    producer_version: str | None = None
    base_ns: int | None = None
    """What is added to the file's own times to have them since the epoch, where one number is and a
    loader has read it."""
    first_ns: int | None = None
    """First event, UTC epoch ns, as far as a probe can tell and was asked to."""
    last_ns: int | None = None
    """End of the last event or of the recording, UTC epoch ns, as far as a probe can tell."""
    most_bytes: int | None = None
    """Its loader refuses a gzip file that unpacks to more; None: it may unpack to any size."""
    all_threads: bool = False
    """Whether its loader may use all cores, because fewer files than cores are left."""
    versions: tuple[tuple[str, str], ...] = ()
    """Of the software that ran, as far as it says: ('CUDA', '12.6'), ('CUDA driver', '12.8') ..."""
    notes: tuple[str, ...] = ()
    """What the user should know about how this file was read."""
    step_range: str | None = None
    """Regular expression (RE2) of the names of the ranges that the user calls steps."""
    beginning: Beginning | None = None
    """No more than this is loaded, if given."""
    beside: bool = False
    """Whether it is a record that the job itself keeps, so that the rank may have a profiler's
    trace as well. One without processes is of the job as a whole: only its lines tell whose.
    """

    @cached_property
    def by_rank(self) -> Mapping[int, Process]:
        """Its processes that have a rank."""
        return {process.rank: process for process in self.processes if process.rank is not None}

    @property
    def ranks(self) -> list[int]:
        """Ranks of its processes, ascending."""
        return sorted(process.rank for process in self.processes if process.rank is not None)

    @property
    def world_sizes(self) -> set[int]:
        """What its processes say of how many ranks there are."""
        return {p.world_size for p in self.processes if p.world_size is not None}

    @cached_property
    def stated(self) -> Mapping[str, frozenset[str]]:
        """What it says of things that a job has once, by what they are."""
        of = self.processes
        # what nsys's enumerations tell of NCCL is a guess: versions not seen yet may share an id
        nccl = {p.nccl_version for p in of} if self.format != "nsys" else set()
        gpus = {p.gpu_name for p in of} | {name for p in of for _, name in p.gpu_names}
        stated = {
            "world size": {str(size) for size in self.world_sizes},
            "GPU model": {name.removeprefix("NVIDIA ") for name in gpus if name is not None},
            "NCCL version": {version for version in nccl if version is not None},
        }
        stated |= {f"{what} version": {version} for what, version in self.versions}
        return {what: frozenset(values) for what, values in stated.items() if values}

    def with_ranks(self, ranks: dict[int, tuple[int, str]]) -> Trace:
        """Return a copy whose processes carry the (rank, rank_source) given per process key."""
        processes = tuple(
            replace(p, rank=ranks[p.key][0], rank_source=ranks[p.key][1]) if p.key in ranks else p
            for p in self.processes
        )
        return replace(self, processes=processes)


@dataclass(frozen=True)
class File:
    """A file that is to be loaded."""

    trace: Trace
    source_id: int
    report: Report


@dataclass(frozen=True)
class Issue:
    """A kind of trouble met while reading, with how many events it concerns."""

    kind: str
    count: int
    message: str
    example: str | None = None


@dataclass(frozen=True)
class Loaded:
    """What became of a file: events_read = events_stored + events_skipped, always."""

    events_read: int
    events_stored: int
    issues: list[Issue] = field(default_factory=list)
    damaged: str | None = None
    """Why the file could not be read to its end; None if it could."""
    cut_short: bool = False
    """Whether events may be missing that nobody could count: those beyond the damage."""

    @property
    def events_skipped(self) -> int:
        """Events that are not in the database."""
        return self.events_read - self.events_stored
