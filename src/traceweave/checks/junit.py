"""The outcomes as JUnit XML, which every CI shows: one test case per limit."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from traceweave.checks.outcomes import CheckResult
from traceweave.outputs import write_whole
from traceweave.targets import FileKind

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(result: CheckResult, name: str) -> bytes:
    """Return the document; `name` says which run was checked."""
    failed = sum(outcome.crossed for outcome in result.outcomes)
    counts = {"tests": str(len(result.outcomes)), "failures": str(failed), "errors": "0"}
    root = ET.Element("testsuites", counts)
    skipped = str(sum(one.skipped or one.untold for one in result.outcomes))
    named = {"name": f"traceweave check {_text(name)}", **counts, "skipped": skipped}
    suite = ET.SubElement(root, "testsuite", named)
    if result.comparability is not None:
        value = _text(" ".join(result.comparability.sentences))
        properties = ET.SubElement(suite, "properties")
        ET.SubElement(properties, "property", {"name": "comparability", "value": value})
    for outcome in result.outcomes:
        title = f"{outcome.rule.name}: {outcome.limit.kind} {outcome.limit.text}"
        case = ET.SubElement(
            suite, "testcase", {"classname": "traceweave.check", "name": _text(title), "time": "0"}
        )
        message = _text(outcome.message)
        if outcome.crossed:
            ET.SubElement(case, "failure", {"message": message, "type": outcome.result})
        elif outcome.skipped or outcome.untold:
            ET.SubElement(case, "skipped", {"message": message})
        else:
            ET.SubElement(case, "system-out").text = message
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def write_junit(result: CheckResult, name: str, path: Path) -> None:
    """Write the document. Raises InputError if the file cannot be written."""
    write_whole(path, junit_xml(result, name), FileKind.JUNIT)


def _text(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return _NOT_XML.sub("�", text)
