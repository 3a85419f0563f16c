"""Rows that analyses need and SQL cannot make: formulas, data and graphs that live in Python.

A header line `-- needs: placed_ops` asks for the table tw_placed_ops. It depends on the run alone,
not on parameters. A line `-- through: replayed_fixes` in shared rows says that they are what a
function makes of those that the statement selects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from traceweave.analyses.gpu_peaks import create_gpu_peaks
from traceweave.analyses.parameters import Value
from traceweave.analyses.placed_ops import create_placed_ops
from traceweave.store.rows import Columns


def _of_replay(name: str) -> Callable[..., Any]:
    """Return a function of traceweave.replay, which few questions need and all would import."""

    def call(*given: object) -> Any:
        from traceweave import replay

        return getattr(replay, name)(*given)

    return call


INPUTS: Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]] = MappingProxyType(
    {
        "placed_ops": create_placed_ops,
        "gpu_peaks": create_gpu_peaks,
        "critical_path": _of_replay("create_replay_tables"),
        "path_changes": _of_replay("create_replay_tables"),
        "replay_quality": _of_replay("create_replay_tables"),
        "slowdown": _of_replay("create_slowdown_table"),
    }
)
"""By the name that headers use: what makes the temporary table tw_<name>."""

Selected: TypeAlias = Callable[[], pa.Table]
"""Asks for the rows that a statement selects."""

THROUGH: Mapping[
    str, Callable[[duckdb.DuckDBPyConnection, Mapping[str, Value], Selected], Columns]
] = MappingProxyType({name: _of_replay(name) for name in ("path_pieces", "replayed_fixes")})
"""By the name that headers use: what makes rows of those that a statement selects, given the
values of its parameters."""
