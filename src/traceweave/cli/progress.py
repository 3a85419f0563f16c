"""Progress on stderr, for people: a bar per file, or what else takes longer than a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from traceweave.words import plural

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 1.0
"""Seconds for which nobody wonders what happens."""

_LOOK_S = 0.1

MOST_BARS = 16
"""Beyond this many files only those being read have a bar."""


@contextmanager
def progress_bars(*, quiet: bool = False) -> Iterator[Bars | None]:
    """Yield the bars; None where nobody would see them: stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        yield Bars(bars)


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Say what takes so long, and for how long, after a second and where stderr is a terminal.

    Yields a function that says what it is now.
    """
    said = [text]
    if not sys.stderr.isatty():
        yield said.append
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(said, done), daemon=True)
    teller.start()
    try:
        yield said.append
    finally:
        done.set()
        teller.join()


def _tell(said: list[str], done: threading.Event) -> None:
    if done.wait(PATIENCE_S):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(said[-1])
        while not done.wait(_LOOK_S):
            shown.update(task, description=said[-1])


class Bars:
    """Shows ingest's progress as rich bars; rich locks, so the threads may call at will."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[Path, TaskID] = {}
        self._total: TaskID | None = None

    def begin(self, sources: Sequence[tuple[Path, int]]) -> None:
        """Add a bar per file and one for all."""
        many = len(sources) > MOST_BARS
        self._tasks = {
            path: self._bars.add_task(_short(path), total=size, visible=not many)
            for path, size in sources
        }
        self._total = self._bars.add_task(
            plural(len(sources), "file"), total=sum(size for _, size in sources)
        )

    def advance(self, path: Path, bytes_read: int) -> None:
        """Move the file's bar and the bar of all."""
        self._bars.update(self._tasks[path], advance=bytes_read, visible=True)
        if self._total is not None:
            self._bars.update(self._total, advance=bytes_read)

    def finish(self, path: Path, status: str) -> None:
        """Take the file's bar away; say so if it failed."""
        self._bars.update(self._tasks[path], visible=False)
        if status != "ok":
            self._bars.console.print(f"{path}: {status}", markup=False, highlight=False)

    def stage(self, text: str) -> None:
        """Show what happens before and after the files are loaded."""
        if self._total is None:
            self._bars.console.print(f"{text} …", markup=False, highlight=False)
        else:
            self._bars.update(self._total, description=text)

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _short(path: Path, most: int = 32) -> str:
    name = path.name
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"
