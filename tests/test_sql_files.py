"""The SQL of the product, as files."""

from __future__ import annotations

from pathlib import Path

import traceweave

ROOT = Path(traceweave.__file__).parent
MOST_LINES = 200
"""A file answers one question: what is longer answers several."""


def test_no_file_is_longer_than_200_lines() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.rglob("*.sql")
    }
    assert lines
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}
