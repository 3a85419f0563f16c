"""Tables that analyses need and SQL cannot make: formulas and data that live in Python.

A header line `-- needs: op_flops` asks for the table tw_op_flops. It depends on the run alone, not
on parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import duckdb

from traceweave.analyses.gpu_peaks import create_gpu_peaks
from traceweave.analyses.op_flops import create_op_flops

INPUTS: Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]] = MappingProxyType(
    {"op_flops": create_op_flops, "gpu_peaks": create_gpu_peaks}
)
"""By the name that headers use: what makes the temporary table tw_<name>."""
