"""The questions that can be asked of a run: one .sql file each, and what runs them."""

from __future__ import annotations

from traceweave.analyses.catalog import LIST, Analysis, catalog, find, rules
from traceweave.analyses.causes import gap_causes, late_causes
from traceweave.analyses.in_sql import with_analyses
from traceweave.analyses.own import read_own
from traceweave.analyses.parameters import Parameter
from traceweave.analyses.reference import (
    analysis_text,
    catalog_markdown,
    catalog_rows,
    findings_markdown,
    signature,
)
from traceweave.analyses.runner import (
    analysis_relation,
    create_macros,
    keep_answers,
    prepare,
    run,
    shared_rows,
)
from traceweave.analyses.stored import keeps_answers
from traceweave.analyses.table_macros import as_macros, create_statements

__all__ = [
    "LIST",
    "Analysis",
    "Parameter",
    "analysis_relation",
    "analysis_text",
    "as_macros",
    "catalog",
    "catalog_markdown",
    "catalog_rows",
    "create_macros",
    "create_statements",
    "find",
    "findings_markdown",
    "gap_causes",
    "keep_answers",
    "keeps_answers",
    "late_causes",
    "prepare",
    "read_own",
    "rules",
    "run",
    "shared_rows",
    "signature",
    "with_analyses",
]
