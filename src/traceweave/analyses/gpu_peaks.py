"""What a GPU could do at most: the rates of gpu_peaks.toml, found by the name in the trace."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import duckdb


@dataclass(frozen=True)
class Peak:
    """Peak rates of one GPU model."""

    name: str
    pattern: re.Pattern[str]
    """Searched in the name that the trace has."""
    tflops: tuple[tuple[str, float], ...]
    """Dense TFLOP/s by type of number: fp64, fp32, tf32, fp16, bf16, fp8, fp4, int8."""
    gbps: float | None
    """Memory bandwidth, decimal GB/s; None if the name does not tell which memory it is."""
    source: str


@cache
def peaks() -> tuple[Peak, ...]:
    """Return every GPU of gpu_peaks.toml, in the order of the file."""
    text = resources.files(__package__).joinpath("gpu_peaks.toml").read_text(encoding="utf-8")
    return tuple(
        Peak(
            name=gpu["name"],
            pattern=re.compile(gpu["match"], re.IGNORECASE),
            tflops=tuple((dtype, float(value)) for dtype, value in gpu["tflops"].items()),
            gbps=None if "gbps" not in gpu else float(gpu["gbps"]),
            source=gpu["source"],
        )
        for gpu in tomllib.loads(text)["gpu"]
    )


def find_peak(gpu_name: str) -> Peak | None:
    """Return the first GPU of the list whose pattern is in `gpu_name`, None if there is none."""
    return next((peak for peak in peaks() if peak.pattern.search(gpu_name)), None)


def create_gpu_peaks(con: duckdb.DuckDBPyConnection) -> None:
    """Make the table tw_gpu_peaks: one row per GPU name of the run and type of number."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE tw_gpu_peaks"
        " (gpu_name VARCHAR, dtype VARCHAR, peak_tflops DOUBLE, peak_gbps DOUBLE)"
    )
    names = con.execute("SELECT DISTINCT gpu_name FROM ranks WHERE gpu_name IS NOT NULL").fetchall()
    rows = [
        (name, dtype, tflops, peak.gbps)
        for (name,) in names
        if (peak := find_peak(name))
        for dtype, tflops in peak.tflops
    ]
    if rows:
        con.executemany("INSERT INTO tw_gpu_peaks VALUES (?, ?, ?, ?)", rows)
