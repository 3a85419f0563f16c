"""What torch keeps beside the profiler, written where it was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traceweave.capturing.recorders import write_whole

MOST_ALLOCATIONS = 100_000
"""Of a memory snapshot's history."""


def dump_flight_recorder(path: Path) -> Path:
    """Write what the flight recorder holds, as a pickle that `traceweave ingest` reads.

    Raises RuntimeError where this torch has none.
    """
    from torch._C import _distributed_c10d as c10d

    # of all back ends since torch 2.7, else of NCCL
    dump = getattr(c10d, "_dump_fr_trace", None) or getattr(c10d, "_dump_nccl_trace", None)
    if dump is None:
        raise RuntimeError("this torch has no flight recorder")
    target = path.with_name(f"{path.name}.flight.pickle")
    content: bytes = dump()
    write_whole(target, lambda draft: draft.write_bytes(content))
    return target


class MemorySnapshot:
    """The history of CUDA's caching allocator over the window, for torch's own memory viewer."""

    def __init__(self) -> None:
        import torch

        self._cuda: Any = torch.cuda if torch.cuda.is_available() else None

    def start(self) -> None:
        """Begin to keep the history. Raises RuntimeError without CUDA."""
        if self._cuda is None:
            raise RuntimeError("a memory snapshot needs CUDA")
        self._cuda.memory._record_memory_history(max_entries=MOST_ALLOCATIONS)

    def save(self, path: Path) -> Path:
        """Write it, and keep it no longer."""
        target = path.with_name(f"{path.name}.memory.pickle")
        write_whole(target, lambda draft: self._cuda.memory._dump_snapshot(str(draft)))
        self._cuda.memory._record_memory_history(enabled=None)
        return target
