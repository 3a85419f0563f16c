"""Kineto's Chrome trace JSON files: one per rank, plain or gzipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, cast

from isal import igzip

from traceweave_simulator.errors import SimulationError
from traceweave_simulator.kineto_rank import KinetoRank, Layout
from traceweave_simulator.places import pid_of
from traceweave_simulator.run import Run

RankNames = str | Callable[[int], str] | Sequence[str]

LAYOUTS = ("torch-2.12", "torch-2.0")

COMPRESSION = 1
"""ISA-L's: a fifteenth of the size, and far faster than formatting the text."""


def write_kineto(
    run: Run,
    folder: str | Path,
    layout: Layout = "torch-2.12",
    gzip: bool = True,
    rank_names: RankNames = "rank{rank}",
    integer_us: bool | None = None,
    ranks: Iterable[int] | None = None,
) -> list[Path]:
    """Write one trace per rank into `folder` and return the paths.

    `rank_names`: a pattern with {rank}, {pid} and {host}, or the names themselves, without suffix.
    `integer_us`: whole microseconds, rounded down, as old versions wrote; None: only in the old
    layout. `ranks`: only these.
    """
    if layout not in LAYOUTS:
        raise SimulationError(f"layout {layout!r} is unknown; one of {', '.join(LAYOUTS)}.")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    whole = layout == "torch-2.0" if integer_us is None else integer_us
    paths = []
    for rank in run.ranks if ranks is None else ranks:
        path = target / (_file_name(run, rank, rank_names) + (".json.gz" if gzip else ".json"))
        with _open(path, gzip) as out:
            for text in KinetoRank(run, rank, layout, whole).texts():
                out.write(text.encode())
        paths.append(path)
    return paths


def _open(path: Path, gzip: bool) -> IO[bytes]:
    if gzip:
        # no time of writing in the header: the same run gives the same bytes
        packed = igzip.IGzipFile(path, "wb", COMPRESSION, mtime=0)  # type: ignore[no-untyped-call]
        return cast(IO[bytes], packed)
    return path.open("wb")


def _file_name(run: Run, rank: int, names: RankNames) -> str:
    if isinstance(names, str):
        return names.format(
            rank=rank, pid=pid_of(run, rank), host=f"node{run.config.host_of(rank)}"
        )
    return names(rank) if callable(names) else names[rank]
