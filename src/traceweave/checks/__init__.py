"""The gate: limits on any number of a run, absolute or against a baseline, for CI."""

from traceweave.checks.annotations import ANNOTATIONS, check_annotations, write_annotations
from traceweave.checks.judge import check_run
from traceweave.checks.junit import junit_xml, write_junit
from traceweave.checks.outcomes import CheckResult, Outcome
from traceweave.checks.rules import Rule, read_rules
from traceweave.checks.starter import starter_rules

__all__ = [
    "ANNOTATIONS",
    "CheckResult",
    "Outcome",
    "Rule",
    "check_annotations",
    "check_run",
    "junit_xml",
    "read_rules",
    "starter_rules",
    "write_annotations",
    "write_junit",
]
