"""Rows that analyses need and SQL cannot make: formulas, data and graphs that live in Python.

A header line `-- needs: placed_ops` asks for the table tw_placed_ops. It depends on the run alone,
not on parameters. A line `-- through: replayed_fixes` in shared rows says that they are what a
function makes of those that the statement selects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import duckdb
import pyarrow as pa

from traceweave.analyses.gpu_peaks import create_gpu_peaks
from traceweave.analyses.parameters import Value
from traceweave.analyses.placed_ops import create_placed_ops
from traceweave.replay import (
    create_replay_tables,
    create_slowdown_table,
    path_pieces,
    replayed_fixes,
)
from traceweave.store.rows import Columns

INPUTS: Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]] = MappingProxyType(
    {
        "placed_ops": create_placed_ops,
        "gpu_peaks": create_gpu_peaks,
        "critical_path": create_replay_tables,
        "path_changes": create_replay_tables,
        "replay_quality": create_replay_tables,
        "slowdown": create_slowdown_table,
    }
)
"""By the name that headers use: what makes the temporary table tw_<name>."""

Selected: TypeAlias = Callable[[], pa.Table]
"""Asks for the rows that a statement selects."""

THROUGH: Mapping[
    str, Callable[[duckdb.DuckDBPyConnection, Mapping[str, Value], Selected], Columns]
] = MappingProxyType({"path_pieces": path_pieces, "replayed_fixes": replayed_fixes})
"""By the name that headers use: what makes rows of those that a statement selects, given the
values of its parameters."""
