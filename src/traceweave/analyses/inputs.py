"""Tables that analyses need and SQL cannot make: formulas and data that live in Python.

A header line `-- needs: placed_ops` asks for the table tw_placed_ops. It depends on the run alone,
not on parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import duckdb

from traceweave.analyses.gpu_peaks import create_gpu_peaks
from traceweave.analyses.placed_ops import create_placed_ops
from traceweave.replay import create_replay_tables, create_slowdown_table

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
