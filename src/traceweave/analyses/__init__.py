"""The questions that can be asked of a run: one .sql file each, and what runs them."""

from __future__ import annotations

from traceweave.analyses.catalog import LIST, Analysis, catalog, find, rules
from traceweave.analyses.causes import gap_causes, late_causes
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
    keep_answers,
    prepare,
    provide,
    run,
    shared_rows,
    with_analyses,
)
from traceweave.analyses.stored import keeps_answers
from traceweave.analyses.table_macros import as_macros, create_statements, script

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
    "create_statements",
    "find",
    "findings_markdown",
    "gap_causes",
    "keep_answers",
    "keeps_answers",
    "late_causes",
    "prepare",
    "provide",
    "read_own",
    "rules",
    "run",
    "script",
    "shared_rows",
    "signature",
    "with_analyses",
]
