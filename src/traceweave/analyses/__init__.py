"""The questions that can be asked of a run: one .sql file each, and what runs them."""

from __future__ import annotations

from traceweave.analyses.catalog import Analysis, catalog, find, rules
from traceweave.analyses.parameters import Parameter
from traceweave.analyses.reference import (
    analysis_text,
    catalog_markdown,
    catalog_rows,
    findings_markdown,
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
    "findings_markdown",
    "rules",
    "run",
    "signature",
]
