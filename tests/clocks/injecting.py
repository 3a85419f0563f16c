"""Real traces whose clocks are put off on the way into another folder."""

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import traceweave

NUMBER = rb'"?(-?[0-9.]+)"?'
TIMES = re.compile(rb'("ts"\s*:\s*)' + NUMBER + rb'(?:(\s*,\s*"dur"\s*:\s*)' + NUMBER + rb")?")
LENGTH = re.compile(rb'"dur"\s*:')
BASE = re.compile(rb'("baseTimeNanoseconds"\s*:\s*)([0-9]+)')


@dataclass(frozen=True)
class Clock:
    """How far a clock is ahead: times in us, moments and periods in parts of the recording."""

    offset_us: int = 0
    drift_ppm: int = 0
    step_us: float = 0.0
    step_at: float = 0.5
    wander_us: float = 0.0
    wander_period: float = 1.0
    wander_phase: float = 0.0

    def ahead_ns(self, since_first: int, span: int) -> int:
        """By how much beyond its offset, so many ns after the first event."""
        part = since_first / span
        turn = 2 * np.pi * (part / self.wander_period + self.wander_phase)
        bent = 1000 * (self.step_us * (part > self.step_at) + self.wander_us * np.sin(turn))
        return (since_first * self.drift_ppm + 500_000) // 1_000_000 + round(float(bent))


def put_off(source: Path, target: Path, clock: Clock) -> None:
    """Copy a Kineto trace as a clock would have shown it; the offset is put into the trace's base
    time, if it has one, else into every event."""
    text = source.read_bytes()
    if source.suffix == ".gz":
        text = gzip.decompress(text)
    found = list(TIMES.finditer(text))
    assert sum(one[3] is not None for one in found) == len(LENGTH.findall(text))
    known = [time for one in found if (time := _ns(one[2])) > 0]
    first, span = min(known), max(known) - min(known)
    offset = 1000 * clock.offset_us
    text, based = BASE.subn(lambda base: base[1] + b"%d" % (int(base[2]) + offset), text)

    def shown(time: int) -> int:
        return time + clock.ahead_ns(time - first, span) + (0 if based else offset)

    def moved(event: re.Match[bytes]) -> bytes:
        begin = _ns(event[2])
        text = event[1] + _us(shown(begin))
        if event[3] is None:
            return text
        return text + event[3] + _us(shown(begin + _ns(event[4])) - shown(begin))

    target.write_bytes(TIMES.sub(moved, text))


def _ns(us: bytes) -> int:
    """Integer ns of microseconds with up to three decimals; floats would not hold epoch times."""
    whole, _, part = us.partition(b".")
    return int(whole + part[:3].ljust(3, b"0"))


def _us(ns: int) -> bytes:
    whole, part = divmod(abs(ns), 1000)
    return b"%s%d.%03d" % (b"-" if ns < 0 else b"", whole, part)


def aligned_ends(path: Path) -> dict[int, np.ndarray]:
    """Ends of the matched calls of every rank on the common clock, ns, in the order of the rank."""
    with traceweave.open(path) as run:
        found = run.sql(
            "SELECT rank, end_ns FROM collectives ORDER BY rank, start_local_ns, collective_id"
        )
    return {int(r): part.end_ns.to_numpy() for r, part in found.groupby("rank")}
