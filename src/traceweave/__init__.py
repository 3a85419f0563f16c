"""traceweave: the profiler traces of every rank of a training run in one DuckDB database.

import traceweave

traceweave.ingest("traces/", "run.duckdb")
with traceweave.open("run.duckdb") as run:
    print(run.breakdown())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceweave._version import __version__

if TYPE_CHECKING:
    from traceweave.api import (
        align,
        check,
        compare,
        install_analyses,
        keep_answers,
        open,
        verify,
    )
    from traceweave.capturing import capture
    from traceweave.errors import (
        DatabaseError,
        InputError,
        QueryError,
        ResourceError,
        TraceweaveError,
        UsageError,
    )
    from traceweave.ingestion import IngestResult, ingest
    from traceweave.run import Run

__all__ = [
    "DatabaseError",
    "IngestResult",
    "InputError",
    "QueryError",
    "ResourceError",
    "Run",
    "TraceweaveError",
    "UsageError",
    "__version__",
    "align",
    "capture",
    "check",
    "compare",
    "ingest",
    "install_analyses",
    "keep_answers",
    "open",
    "verify",
]

_HOMES = {
    "DatabaseError": "traceweave.errors",
    "IngestResult": "traceweave.ingestion",
    "InputError": "traceweave.errors",
    "QueryError": "traceweave.errors",
    "ResourceError": "traceweave.errors",
    "Run": "traceweave.run",
    "TraceweaveError": "traceweave.errors",
    "UsageError": "traceweave.errors",
    "align": "traceweave.api",
    "capture": "traceweave.capturing",
    "check": "traceweave.api",
    "compare": "traceweave.api",
    "ingest": "traceweave.ingestion",
    "install_analyses": "traceweave.api",
    "keep_answers": "traceweave.api",
    "open": "traceweave.api",
    "verify": "traceweave.api",
}
"""Where each public name lives: it is imported on first use, as DuckDB and pandas take a second."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'traceweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
