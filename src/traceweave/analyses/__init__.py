"""The questions that can be asked of a run: one .sql file each, and what runs them."""

from __future__ import annotations

from traceweave.analyses.catalog import LIST, Analysis, catalog, find, read_own, rules
from traceweave.analyses.causes import EXPOSED, IDLE, LATE, cause_words
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
    "EXPOSED",
    "IDLE",
    "LATE",
    "LIST",
    "Analysis",
    "Parameter",
    "analysis_relation",
    "analysis_text",
    "as_macros",
    "catalog",
    "catalog_markdown",
    "catalog_rows",
    "cause_words",
    "create_statements",
    "find",
    "findings_markdown",
    "keep_answers",
    "keeps_answers",
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
