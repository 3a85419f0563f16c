"""The sweeps as functions that SQL can call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from duckdb.func import ARROW

from traceweave.analyses.sweeps.chances import chances
from traceweave.analyses.sweeps.columns import to_arrow, to_numpy
from traceweave.analyses.sweeps.gaps import gaps
from traceweave.analyses.sweeps.origins import wait_origins
from traceweave.analyses.sweeps.streams import queue_depth, stream_idle
from traceweave.analyses.sweeps.times import NEVER
from traceweave.analyses.sweeps.unions import UNIONS, busy_until, union_until, within

SMALL = 100_000
"""Up to so many elements of all lists together one thread sweeps: to start others takes longer."""


@dataclass(frozen=True)
class Sweep:
    """A function that SQL can call: lists in, a list per column out, one row per sweep."""

    function: Callable[..., tuple[npt.NDArray[np.generic], ...]]
    takes: tuple[str, ...]
    """SQL type of the elements of each parameter."""
    returns: Mapping[str, str]
    """SQL type of the elements of each list that is returned, by its name."""

    @property
    def __signature__(self) -> Signature:
        """One parameter per list: DuckDB counts them."""
        names = [f"list_{number}" for number, _ in enumerate(self.takes)]
        return Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])

    def __call__(self, *columns: pa.ChunkedArray) -> pa.StructArray:
        """Apply the function to every row, several rows at a time."""
        lists = [column.combine_chunks() for column in columns]
        rows = zip(*map(_arrays, lists), strict=True)
        if sum(len(each.values) for each in lists) <= SMALL:
            done = [self.function(*row) for row in rows]
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                done = list(pool.map(lambda row: self.function(*row), rows))
        found = [_lists(parts) for parts in zip(*done, strict=True)]
        return pa.StructArray.from_arrays(found, names=list(self.returns))


def _arrays(column: pa.ListArray) -> list[npt.NDArray[np.generic]]:
    """Return the lists of a column, none of which is NULL; elements that are stand for NEVER."""
    return np.split(to_numpy(column.values, NEVER), to_numpy(column.offsets)[1:-1])


def _lists(parts: tuple[npt.NDArray[np.generic], ...]) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    return pa.ListArray.from_arrays(to_arrow(offsets), to_arrow(np.concatenate(parts)))


SWEEPS: Mapping[str, Sweep] = MappingProxyType(
    {
        "sweep_busy_until": Sweep(
            busy_until,
            ("BIGINT", "BIGINT", "UTINYINT", "BIGINT"),
            dict.fromkeys(UNIONS, "BIGINT"),
        ),
        "sweep_union_until": Sweep(union_until, ("BIGINT",) * 3, {"union_ns": "BIGINT"}),
        "sweep_within": Sweep(within, ("BIGINT",) * 3, {"number": "BIGINT"}),
        "sweep_gaps": Sweep(
            gaps,
            ("BIGINT",) * 8,
            dict.fromkeys(
                (
                    "number",
                    "whose",
                    "start_ns",
                    "end_ns",
                    "whole_ns",
                    "free_from_ns",
                    "free_until_ns",
                    "after_op_id",
                    "before_op_id",
                    "watched_op_id",
                    "launch_start_ns",
                    "launch_end_ns",
                    "queued_number",
                    "queued_gaps",
                    "queued_ns",
                    "queued_longest_ns",
                ),
                "BIGINT",
            ),
        ),
        "sweep_stream_idle": Sweep(
            stream_idle,
            ("BIGINT",) * 4,
            dict.fromkeys(
                (
                    *("idle_ns", "host_wait_ns", "kernel_wait_ns"),
                    *("waits", "host_waits", "kernel_waits"),
                ),
                "BIGINT",
            ),
        ),
        "sweep_wait_origins": Sweep(
            wait_origins,
            ("BIGINT",) * 7,
            {**dict.fromkeys(("number", "rank", "origin"), "BIGINT"), "share": "DOUBLE"},
        ),
        "sweep_chances": Sweep(chances, ("BIGINT",) * 3, {"rank": "BIGINT", "chance": "DOUBLE"}),
        "sweep_queue_depth": Sweep(
            queue_depth,
            ("BIGINT",) * 5,
            dict.fromkeys(
                (
                    *("start_ns", "window_ns", "launches", "depth_max", "depth_ns", "depth_p50"),
                    *("empty_ns", "empty_launches", "full_ns", "blocked_launches", "blocked_ns"),
                ),
                "BIGINT",
            ),
        ),
    }
)
"""By the name that macros use."""


def create_sweep(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Create one of SWEEPS in `con`, which has none of that name."""
    sweep = SWEEPS[name]
    result = ", ".join(f"{column} {type_}[]" for column, type_ in sweep.returns.items())
    con.create_function(
        name,
        cast(Callable[..., Any], sweep),
        [f"{type_}[]" for type_ in sweep.takes],
        f"STRUCT({result})",
        type=ARROW,
    )
