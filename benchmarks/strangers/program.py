"""What a rank is told to do: the vocabulary that jobs are written in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A process group: its name and description as torch gives them, and its global ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Compute:
    """Kernels on the stream of the computation, one for each of `parts`."""

    us: float
    parts: int = 1
    backward: bool = False


@dataclass(frozen=True)
class Collective:
    """A collective over all of a group; `elements` are those of the whole buffer.

    `tag` names it for a later `Wait`; without one the computation waits at once. `stream` is the
    program's own stream that it runs on, where it is not the group's.
    """

    group: Group
    op: str
    elements: int
    dtype: str = "BFloat16"
    tag: str = ""
    stream: str = ""
    backward: bool = False
    ragged: bool = False


@dataclass(frozen=True)
class Message:
    """One send or receive; `peer` is a global rank."""

    group: Group
    peer: int
    sends: bool
    elements: int


@dataclass(frozen=True)
class Messages:
    """Sends and receives that are issued together and waited for together.

    One kernel for all where `batched` (all of one group), else one each on its pair's stream.
    """

    parts: tuple[Message, ...]
    batched: bool
    dtype: str = "BFloat16"
    backward: bool = False


@dataclass(frozen=True)
class Wait:
    """The computation waits for the collective of this tag."""

    tag: str


@dataclass(frozen=True)
class HostSync:
    """The host reads a result: it waits for the computation, then for `pause_us` more."""

    pause_us: float = 0.0


@dataclass(frozen=True)
class StepBegin:
    """A step of the profiler begins."""

    number: int


Op = Compute | Collective | Messages | Wait | HostSync | StepBegin
BYTES = {"Float": 4, "BFloat16": 2, "Half": 2, "Long": 8, "Byte": 1}
