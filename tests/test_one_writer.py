"""Numbers and units are written by words.py alone; what else does it is listed here, with why."""

import ast
import re
from collections.abc import Iterator

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "traceweave"

ALLOWED = {
    # Python: the value as the source has it, and the unit behind it
    "MAX_TOP_BYTES >> 20 MiB": "a limit, exactly",
    "MAX_EVENT_BYTES >> 20 MiB": "a limit, exactly",
    "memory MiB": "a setting for DuckDB",
    "most_mib MiB": "a setting for DuckDB",
    "self._limit": "a time limit as the user gave it",
    "self.limit": "a time limit as the user gave it",
    "seconds:g": "a limit, exactly",
    "seconds s": "a limit, exactly",
    "value / factor + 0.005:.2f": "a limit in a file that is read again, never below the value",
    "int(shift) ns": "what the user gave to nsys",
    "flops FLOPs": "an error that the caller takes for a formula without an answer",
    "what s": "a range that the user gave, of whatever length",
    "word s": "the name of a kind of message, without a number",
    # SQL
    "k.bytes || ' B": "the shape of a collective is what two runs have in common: exactly",
    "format('#{:08x}'": "a colour",
    "format('rank={} kind=compute times={:.4f}'": "a scenario, as what-if takes it",
    "format('group={} kind=transfer times={:.4f}'": "a scenario, as what-if takes it",
    # scripts of the page: charts.js is the counterpart of words.py, see test_browser.py
    "(variant.at[dataIndex] / size).toPrecision": "a place on an axis, in its unit",
    '"B"': "the end of a unit that the head of a column has, not one that is written",
    "(at / size).toFixed": "a place on an axis, in its unit",
}

_FORMAT = re.compile(r"[,_%]|\.\d|[efgn]$")
_UNIT = re.compile(r"s\b|( ?(ns|us|µs|ms|s|[kMGT]?B|[KMGT]iB|GB/s|[kMGTP]?FLOPs?)\b)| ?[%×]")
_SQL = re.compile(
    r"\w*\('[^']*\{:[^}]*\}'?|\bprintf\(|ELSE '' END '?s'"
    r"|[\w.]+ \|\| ' ?(?:ns|us|ms|s|[kMGT]?B|%)\b"
)
_SCRIPT = re.compile(
    r"\([^()]*\)\.to(?:Fixed|Precision)|toLocaleString|NumberFormat|\"[kMG]?B\"|[µ×]"
)


def _by_hand_in_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "format":
            yield ast.unparse(node)
        if not isinstance(node, ast.JoinedStr):
            continue
        for part, after in zip(node.values, [*node.values[1:], None], strict=True):
            if isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                if isinstance(part.value, ast.IfExp) and "'s'" in value:
                    yield value
                if _FORMAT.search(_constant(part.format_spec)):
                    yield f"{value}:{_constant(part.format_spec)}"
                if unit := _UNIT.match(_constant(after)):
                    yield f"{value} {unit[0].strip()}"


def _constant(node: ast.expr | None) -> str:
    """Return the text of a constant, or of those in a format; what stands between is left out."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_constant, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _files(suffix: str) -> Iterator[str]:
    for path in sorted(SOURCE.rglob(f"*.{suffix}")):
        if path.name not in ("words.py", "charts.js") and not {"vendor", "simulate"} & {
            *path.relative_to(SOURCE).parts
        }:
            yield path.read_text(encoding="utf-8")


def _by_hand() -> set[str]:
    found = {one for text in _files("py") for one in _by_hand_in_python(text)}
    for text in _files("sql"):
        code = re.sub(r"--[^\n]*", "", text)
        found.update(match[0] for match in _SQL.finditer(code))
    for text in _files("js"):
        found.update(match[0] for match in _SCRIPT.finditer(text))
    return found


def test_numbers_and_units_are_written_in_one_place() -> None:
    by_hand = _by_hand()
    allowed = {found for found in by_hand if any(one in found for one in ALLOWED)}
    assert sorted(by_hand - allowed) == [], "words.py writes numbers; say here why it cannot"
    assert [one for one in ALLOWED if not any(one in found for found in allowed)] == []


def test_what_is_written_by_hand_is_found() -> None:
    """The rules above see what they are for."""
    text = """
f"{ns / 1e6:.1f} ms", f"{share:.1%}", f"{events:,} events", f"{noun}s", f"{x} GB"
f"{n} rank{'' if n == 1 else 's'}", f"{path}: {name!r}", f"{a} steps", format(x, ".3g")
"""
    assert sorted(_by_hand_in_python(text)) == [
        *("'' if n == 1 else 's'", "events:,", "format(x, '.3g')", "noun s"),
        *("ns / 1000000.0 ms", "ns / 1000000.0:.1f", "share:.1%", "x GB"),
    ]
    assert _SQL.search("format('{:.1f}%', 100 * share)")
    assert _SQL.search("tw_digits(ns / 1e6), bytes || ' kB'")
    assert _SCRIPT.search("`${(value / size).toFixed(2)} ms`")
