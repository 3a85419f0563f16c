"""How exactly a step written into a recorded run can come back at best.

    python benchmarks/step_floor.py FOLDER... [--reference-rank 0]

Each rank's end times relative to the median of their collective, as woven from the recording as it
is, are fitted twice: by an offset and a drift, and by these and a step whose moment is told (the
moments that tests/clocks/test_injected.py writes in). No step is there, so by what the second fit
differs from the first is what the scatter of ends is mistaken for, with everything else known.
Prints the 95th percentile of the difference over a rank's collectives, us, lowest and highest rank.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

import traceweave
from traceweave.arrays import Floats

SOFT_NS = 500.0
"""Scatter that is added to what ends show, as device timestamps have steps."""


def ends_of(folder: Path) -> tuple[Floats, Floats]:
    """Return, ns, when each collective ended (median) and each rank's end relative to that:
    collectives x ranks, NaN where a rank was not there."""
    with tempfile.TemporaryDirectory() as place:
        database = Path(place) / "run.duckdb"
        traceweave.ingest(folder, database)
        with traceweave.open(database) as run:
            calls = run.sql(
                "SELECT rank, collective_id, end_ns FROM collectives"
                " WHERE match <> 'unmatched' AND collective_id IS NOT NULL"
            )
    calls["end_ns"] -= calls["end_ns"].min()
    wide = calls.pivot_table("end_ns", "collective_id", "rank", "max").to_numpy(dtype=float)
    middle = np.nanmedian(wide, axis=1)
    return middle, wide - middle[:, None]


def fitted(ends: Floats, columns: Floats) -> Floats:
    """Return a robust fit of the columns to the ends, at every end."""
    scatter = 1.4826 * np.median(np.abs(ends - np.median(ends))) + SOFT_NS
    first = np.linalg.lstsq(columns, ends, rcond=None)[0]
    found = least_squares(lambda b: (ends - columns @ b) / scatter, first, loss="cauchy")
    return np.asarray(columns @ found.x)


def floor_us(folder: Path, reference: int) -> list[float]:
    """Return what is left at the 95th percentile of every rank but the reference."""
    at, ends = ends_of(folder)
    part = (at - at.min()) / np.ptp(at)
    left = []
    for k in range(ends.shape[1]):
        there = ~np.isnan(ends[:, k])
        if k == reference:
            continue
        line = np.stack([np.ones(int(there.sum())), part[there] - part[there].mean()], axis=1)
        step = (part[there] > 0.25 + 0.06 * k).astype(float)
        without, with_ = (fitted(ends[there, k], c) for c in (line, np.column_stack([line, step])))
        left.append(float(np.percentile(np.abs(with_ - without), 95)) / 1e3)
    return left


def main() -> None:
    """Print one line per run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--reference-rank", type=int, default=0)
    args = parser.parse_args()
    for folder in args.folder:
        left = floor_us(folder, args.reference_rank)
        print(f"{folder.name}: {min(left):.1f} to {max(left):.1f} us over {len(left)} ranks")


if __name__ == "__main__":
    main()
