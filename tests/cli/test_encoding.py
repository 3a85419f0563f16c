"""Terminals and pipes that know less than Unicode get all that is printed, in their characters."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.marks import nightly
from traceweave.cli.main import main

QUERY = "SELECT 'Zoë 漢 😀' AS name, 'x' || repeat('y', 200) AS long, 1500 AS wait_ns"


@pytest.fixture
def database(database_of: Callable[..., Path]) -> Path:
    return database_of(ROOT / "tests" / "fixtures" / "ddp_gloo_4ranks")


def _stdout(monkeypatch: pytest.MonkeyPatch, encoding: str, *arguments: object) -> str:
    with monkeypatch.context() as patch:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        patch.setattr(sys, "stdout", stream)
        assert main([str(argument) for argument in arguments]) == 0
        written: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return written.decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_table_is_drawn_with_the_characters_that_there_are(
    monkeypatch: pytest.MonkeyPatch, database: Path, encoding: str
) -> None:
    heads, rule, row = _stdout(monkeypatch, encoding, "query", database, QUERY).splitlines()
    name = "Zo\\u00eb" if encoding == "ascii" else "Zoë"
    end = "…" if encoding == "cp1252" else "~"
    assert heads.split() == ["name", "long", "wait"]
    assert set(rule) == {"-", " "}
    assert row.startswith(f"{name} \\u6f22 \\ud83d\\ude00")
    assert row.endswith(f"y{end}  1.500 us")


def test_json_stays_json(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    plain = _stdout(monkeypatch, "utf-8", "query", database, QUERY, "--format", "json")
    escaped = _stdout(monkeypatch, "ascii", "query", database, QUERY, "--format", "json")
    assert json.loads(escaped) == json.loads(plain)
    assert "Zoë 漢 😀" in plain


@nightly
def test_nothing_that_the_program_itself_says_needs_more_than_ascii(
    monkeypatch: pytest.MonkeyPatch, fixtures: Path, database_of: Callable[..., Path]
) -> None:
    database = database_of(fixtures / "ddp_gloo_straggler")
    for analysis in ("health", "findings", "stragglers", "tails"):
        assert "\\u" not in _stdout(monkeypatch, "ascii", "analyze", analysis, database)
    assert "\\u" not in _stdout(monkeypatch, "ascii", "info", database)
