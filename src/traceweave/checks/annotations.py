"""Failures as remarks of GitHub and GitLab, which show them beside the change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from traceweave.checks.outcomes import CheckResult, Outcome
from traceweave.errors import UsageError, suggest
from traceweave.outputs import write_whole
from traceweave.targets import FileKind, check_target


def github(result: CheckResult, rules: Path) -> str:
    """Return commands of GitHub Actions, one per limit: an error if it failed, else nothing.

    A skipped limit is a notice, as one that cannot be told. What comes from a trace is escaped, so
    that it is no command.
    """
    lines = []
    for outcome in result.outcomes:
        if outcome.result == "ok":
            continue
        kind = "error" if outcome.crossed else "notice"
        title = _property(f"traceweave check: {outcome.rule.name}")
        lines.append(
            f"::{kind} file={_property(str(rules))},line={outcome.rule.line},title={title}"
            f"::{_data(outcome.message)}"
        )
    kind = "error" if result.nothing_checked else "notice"
    lines.append(f"::{kind} title=traceweave check::{_data(result.summary)}")
    return "\n".join(lines) + "\n"


def gitlab(result: CheckResult, rules: Path) -> str:
    """Return a code quality report of GitLab: one issue per limit that failed."""
    issues = [
        {
            "description": _named(outcome),
            "check_name": f"traceweave check: {outcome.rule.name}",
            "fingerprint": _fingerprint(outcome.rule.name, outcome.limit.kind),
            "severity": "major",
            "location": {"path": str(rules), "lines": {"begin": outcome.rule.line}},
        }
        for outcome in result.outcomes
        if outcome.crossed
    ]
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def _named(outcome: Outcome) -> str:
    name = outcome.rule.name
    return outcome.message if outcome.rule.metric == name else f"{name}: {outcome.message}"


ANNOTATIONS: Mapping[str, Callable[[CheckResult, Path], str]] = MappingProxyType(
    {"github": github, "gitlab": gitlab}
)
"""By the name of the service: what writes the outcomes as it reads them."""

KINDS: Mapping[str, FileKind] = MappingProxyType({"github": FileKind.TEXT, "gitlab": FileKind.JSON})
"""What that is."""


def write_annotations(result: CheckResult, service: str, rules: Path, path: Path) -> None:
    """Write the outcomes as `service` reads them; '-' is stdout.

    Raises UsageError as check_annotations does, InputError if the file cannot be written.
    """
    check_annotations(service, path)
    write_whole(_target(path), ANNOTATIONS[service](result, rules).encode(), KINDS[service])


def check_annotations(service: str, path: Path) -> None:
    """Raise UsageError if there is no such service, or the file may not be replaced."""
    if service not in ANNOTATIONS:
        raise UsageError(f"no annotations for {service!r}{suggest(service, ANNOTATIONS)}")
    check_target(_target(path), KINDS[service])


def _target(path: Path) -> Path:
    return Path("/dev/stdout") if str(path) == "-" else path


def _fingerprint(*parts: str) -> str:
    """Return what tells GitLab that an issue of two runs is the same: not its numbers."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
