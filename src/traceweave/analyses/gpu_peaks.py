"""What the GPUs of a run could do at most, for statements."""

from __future__ import annotations

import duckdb

from traceweave.store.rows import insert_rows
from traceweave.vocabulary.gpus import find_peak


def create_gpu_peaks(con: duckdb.DuckDBPyConnection) -> None:
    """Make the table tw_gpu_peaks: one row per GPU name of the run and type of number."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE tw_gpu_peaks"
        " (gpu_name VARCHAR, dtype VARCHAR, peak_tflops DOUBLE, peak_gbps DOUBLE)"
    )
    names = con.execute("SELECT DISTINCT gpu_name FROM ranks WHERE gpu_name IS NOT NULL").fetchall()
    insert_rows(con, "tw_gpu_peaks", [
        {"gpu_name": name, "dtype": dtype, "peak_tflops": tflops, "peak_gbps": peak.gbps}
        for (name,) in names
        if (peak := find_peak(name))
        for dtype, tflops in peak.tflops
    ])  # fmt: skip
