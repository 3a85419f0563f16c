"""Real traces whose clocks are put off on the way into another folder."""

from __future__ import annotations

import gzip
import re
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
    first = min(time for found in TIME.finditer(text) if (time := _ns(found[2])) > 0)

    def moved(found: re.Match[bytes]) -> bytes:
        time = _ns(found[2])
        return found[1] + _us(time + 1000 * offset_us + _drift(time - first, drift_ppm))

    def stretched(found: re.Match[bytes]) -> bytes:
        length = _ns(found[2])
        return found[1] + _us(length + _drift(length, drift_ppm))

    text = TIME.sub(moved, text)
    target.write_bytes(LENGTH.sub(stretched, text) if drift_ppm else text)


def _ns(us: bytes) -> int:
    """Integer ns of microseconds with up to three decimals; floats would not hold epoch times."""
    whole, _, part = us.partition(b".")
    return int(whole + part[:3].ljust(3, b"0"))


def _us(ns: int) -> bytes:
    whole, part = divmod(abs(ns), 1000)
    return b"%s%d.%03d" % (b"-" if ns < 0 else b"", whole, part)


def _drift(ns: int, ppm: int) -> int:
    return (ns * ppm + 500_000) // 1_000_000


def aligned_ends(path: Path) -> dict[int, np.ndarray]:
    """Ends of the matched calls of every rank on the common clock, ns, in the order of the rank."""
    with traceweave.open(path) as run:
        found = run.sql(
            "SELECT rank, end_ns FROM collectives ORDER BY rank, start_local_ns, collective_id"
        )
    return {int(r): part.end_ns.to_numpy() for r, part in found.groupby("rank")}
