"""Real traces whose clocks are put off on the way into another folder."""

from __future__ import annotations

import gzip
import re
from decimal import Decimal
from pathlib import Path

import numpy as np

import traceweave

TIME = re.compile(rb'("ts"\s*:\s*)"?(-?[0-9.]+)"?')


def put_off(source: Path, target: Path, offset_us: int, drift_ppm: int) -> None:
    """Copy a Kineto trace with every time moved: later by the offset, and faster by the drift from
    its first event on."""
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

    target.write_bytes(TIME.sub(moved, text))


def aligned_ends(path: Path) -> dict[int, np.ndarray]:
    """Ends of the matched calls of every rank on the common clock, ns, in the order of the rank."""
    with traceweave.open(path) as run:
        found = run.sql(
            "SELECT rank, end_ns FROM collectives ORDER BY rank, start_local_ns, collective_id"
        )
    return {int(r): part.end_ns.to_numpy() for r, part in found.groupby("rank")}
