"""Rows that analyses need and SQL cannot make: formulas, data and graphs that live in Python.

Who reads the table tw_placed_ops has it made. It depends on the run alone, not on parameters. A
line `-- through: replayed_fixes` in shared rows says that they are what a function makes of those
that the statement selects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from traceweave.analyses.placed_ops import create_placed_ops
from traceweave.store.rows import insert_rows
from traceweave.vocabulary.gpus import find_peak


@cache
def _of_replay(name: str) -> Callable[..., Any]:
    """Return a function of traceweave.replay, which few questions need and all would import."""

    def call(*given: object) -> Any:
        from traceweave import replay

        return getattr(replay, name)(*given)

    return call


def _create_gpu_peaks(con: duckdb.DuckDBPyConnection) -> None:
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


class Input(NamedTuple):
    """What makes rows that statements read."""

    make: Callable[..., Any]
    reads: tuple[str, ...]
    """The public relations, and the shared tables, that it makes them of."""


_REPLAYED = (
    "clock_spans", "collective_instances", "collectives", "device_ops", "gpu_ops", "host_ops",
    "message_rings", "other_events", "ranks", "steps",
)  # fmt: skip

INPUTS: Mapping[str, Input] = MappingProxyType(
    {
        "tw_placed_ops": Input(create_placed_ops, ("gpu_ops", "host_ops", "ranks", "tw_updates")),
        "tw_gpu_peaks": Input(_create_gpu_peaks, ("ranks",)),
        "tw_path_pieces": Input(_of_replay("create_replay_tables"), _REPLAYED),
        "tw_spent": Input(_of_replay("create_replay_tables"), _REPLAYED),
        "tw_path_changes": Input(_of_replay("create_replay_tables"), _REPLAYED),
        "tw_replay_quality": Input(_of_replay("create_replay_tables"), _REPLAYED),
        "tw_contention": Input(
            _of_replay("create_contention_table"), ("collectives", "gpu_ops", "host_ops", "ranks")
        ),
        "tw_exposed_pieces": Input(_of_replay("create_exposed_tables"), _REPLAYED),
        "tw_copy_pieces": Input(_of_replay("create_exposed_tables"), _REPLAYED),
        "tw_first_uses": Input(_of_replay("create_exposed_tables"), _REPLAYED),
        "tw_slowdown": Input(_of_replay("create_slowdown_table"), _REPLAYED),
    }
)
"""By its name: what makes a temporary table, given the connection."""

Selected: TypeAlias = Callable[[], pa.Table]
"""Asks for the rows that a statement selects."""

THROUGH: Mapping[str, Input] = MappingProxyType(
    {
        name: Input(_of_replay(name), _REPLAYED)
        for name in ("hideable_calls", "path_pieces", "replayed_fixes")
    }
    | {"selected_ops": Input(_of_replay("selected_ops"), ("collectives", "device_ops", "gpu_ops"))}
)
"""By the name that headers use: what makes Columns of the rows that a statement selects, given the
connection, the values of its parameters and Selected."""
