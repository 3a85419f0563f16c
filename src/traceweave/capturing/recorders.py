"""What records: torch's profiler in the process, or nsys around it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

KEY = "traceweave"
"""Of a trace's top level: what the capture says of the process and its job."""

CUT = "no whole step"
"""Name of the range that a job left before it told the end of the step."""


class Recorder(Protocol):
    """Records a window of steps of this process."""

    def objection(self) -> str | None:
        """Return why it cannot record now."""

    def prepare(self) -> None:
        """Do what takes long, some steps before the window."""

    def start(self) -> None:
        """Begin to record."""

    def step(self, number: int) -> Any:
        """Return a context that marks a step."""

    def stop(self, description: dict[str, Any]) -> None:
        """End the recording, and put the description into it."""

    def save(self, path: Path, cut: int | None = None) -> Path:
        """Write it to `path`, to which it adds its suffix; return the whole name. The step `cut`
        is no step: nobody told its end."""

    def close(self) -> None:
        """End what was made ready or begun and never came to its end."""


@dataclass
class TorchRecorder:
    """torch.profiler; one file per rank."""

    shapes: bool = True
    memory: bool = False
    stacks: bool = False
    sync_events: bool = True
    _profile: Any = None
    _open: bool = False

    def objection(self) -> str | None:
        """Return that another profile is being recorded."""
        import torch

        return "a profiler is running" if torch._C._autograd._profiler_enabled() else None

    def prepare(self) -> None:
        """Make the profiler ready: CUPTI takes long to, and slows the first steps."""
        import torch

        config = None
        if self.sync_events and torch.cuda.is_available():
            config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
        # every activity that this machine has, which is the default
        self._profile = torch.profiler.profile(
            record_shapes=self.shapes,
            profile_memory=self.memory,
            with_stack=self.stacks,
            experimental_config=config,
        )
        self._profile.prepare_trace()
        self._open = True

    def start(self) -> None:
        """Begin to record."""
        self._profile.start_trace()

    def step(self, number: int) -> Any:
        """Return the range by which torch's own schedule marks steps."""
        import torch

        return torch.profiler.record_function(_mark(number))

    def stop(self, description: dict[str, Any]) -> None:
        """End the recording with the description in the trace's top level."""
        self._profile.add_metadata_json(KEY, as_json(description))
        self._open = False
        self._profile.stop_trace()

    def save(self, path: Path, cut: int | None = None) -> Path:
        """Write the trace; the range of a step that was cut gets a name that marks none."""
        target = path.with_name(f"{path.name}.json.gz")
        write_whole(target, lambda draft: self._profile.export_chrome_trace(str(draft)))
        if cut is not None:  # what fails here loses nothing
            write_whole(target, lambda draft: _rename(target, draft, _mark(cut), CUT))
        return target

    def close(self) -> None:
        """Let the profiler go: one that is only ready would slow the job on."""
        import torch

        if self._open:
            self._open = False
            if not torch._C._autograd._profiler_enabled():
                self._profile.start_trace()
            self._profile.stop_trace()


class NsysRecorder:
    """Ranges for an nsys that profiles this process, with --capture-range=cudaProfilerApi; what it
    cannot know is written beside its report.
    """

    def __init__(self) -> None:
        self._description: dict[str, Any] = {}
        self._open = False

    def objection(self) -> str | None:
        """Return that there is nothing to record with."""
        import torch

        return None if torch.cuda.is_available() else "nsys needs CUDA for its capture range"

    def prepare(self) -> None:
        """Nothing takes long."""

    def start(self) -> None:
        """Let nsys begin."""
        import torch

        torch.cuda.profiler.start()
        self._open = True

    def step(self, number: int) -> Any:
        """Return a range that is recognized as a step."""
        import torch

        return torch.cuda.nvtx.range(f"step {number}")

    def stop(self, description: dict[str, Any]) -> None:
        """Let nsys end, once the GPU is done."""
        import torch

        self._description = description
        torch.cuda.synchronize()
        self.close()

    def save(self, path: Path, cut: int | None = None) -> Path:
        """Write the description; what is in the report of nsys stays as it is."""
        target = path.with_name(f"{path.name}.capture.json")
        text = as_json({KEY: self._description})
        write_whole(target, lambda draft: draft.write_text(text))
        return target

    def close(self) -> None:
        """Let nsys end."""
        import torch

        if self._open:
            self._open = False
            torch.cuda.profiler.stop()


def _mark(number: int) -> str:
    return f"ProfilerStep#{number}"


def _rename(trace: Path, renamed: Path, old: str, new: str) -> None:
    """Copy a compressed trace with another name for one range."""
    with gzip.open(trace) as lines, gzip.open(renamed, "wb") as out:
        out.writelines(line.replace(f'"{old}"'.encode(), f'"{new}"'.encode()) for line in lines)


def as_json(value: object) -> str:
    """Return JSON without any backslash: Kineto makes slashes of those in its metadata."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, str):
        return "".join("?" if c in '"\\' or ord(c) < 32 else c for c in value)
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a hidden file beside `target`, then give it its name."""
    draft = target.with_name(f".{target.name}")
    try:
        write(draft)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
