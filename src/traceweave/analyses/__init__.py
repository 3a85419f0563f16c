"""The questions that can be asked of a run: one .sql file each, and what runs them."""

from __future__ import annotations

from traceweave.analyses.catalog import Analysis, Parameter, catalog, find
from traceweave.analyses.reference import catalog_markdown
from traceweave.analyses.runner import run

__all__ = ["Analysis", "Parameter", "catalog", "catalog_markdown", "find", "run"]
