"""The questions that can be asked of a run: one .sql file each, and what runs them."""

from __future__ import annotations

from traceweave.analyses.catalog import Analysis, Parameter, catalog, find
from traceweave.analyses.reference import (
    analysis_text,
    catalog_markdown,
    catalog_rows,
    signature,
)
from traceweave.analyses.runner import analysis_relation, run

__all__ = [
    "Analysis",
    "Parameter",
    "analysis_relation",
    "analysis_text",
    "catalog",
    "catalog_markdown",
    "catalog_rows",
    "find",
    "run",
    "signature",
]
