"""Real traces whose clocks are put off on the way into another folder."""

from __future__ import annotations

import gzip
import re
from decimal import Decimal
from pathlib import Path

import numpy as np

import traceweave

TIME = re.compile(rb'("ts"\s*:\s*)"?(-?[0-9.]+)"?')
LENGTH = re.compile(rb'("dur"\s*:\s*)"?(-?[0-9.]+)"?')


def put_off(source: Path, target: Path, offset_us: int, drift_ppm: int) -> None:
    """Copy a Kineto trace as a clock would have shown it that is ahead by the offset and runs
    faster by the drift from the first event on; waits of 40 ms get longer by 1 us at 30 ppm."""
    text = source.read_bytes()
    if source.suffix == ".gz":
        text = gzip.decompress(text)
    times = [Decimal(found[2].decode()) for found in TIME.finditer(text)]
    first = min(t for t in times if t > 0)
    rate = Decimal(drift_ppm) / 1_000_000

    def moved(found: re.Match[bytes]) -> bytes:
        time = Decimal(found[2].decode())
        later = time + offset_us + rate * (time - first)
        return found[1] + str(round(later, 3)).encode()

    def stretched(found: re.Match[bytes]) -> bytes:
        return found[1] + str(round(Decimal(found[2].decode()) * (1 + rate), 3)).encode()

    target.write_bytes(LENGTH.sub(stretched, TIME.sub(moved, text)))


def aligned_ends(path: Path) -> dict[int, np.ndarray]:
    """Ends of the matched calls of every rank on the common clock, ns, in the order of the rank."""
    with traceweave.open(path) as run:
        found = run.sql(
            "SELECT rank, end_ns FROM collectives ORDER BY rank, start_local_ns, collective_id"
        )
    return {int(r): part.end_ns.to_numpy() for r, part in found.groupby("rank")}
