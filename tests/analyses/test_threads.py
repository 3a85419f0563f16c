"""Small databases are asked by one thread, large ones and run folders by one per core."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.marks import nightly
from tests.sharded.equal import differing_answers
from traceweave.store import database

Databases = Callable[..., Path]


@contextmanager
def asked_as_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[traceweave.Run]:
    monkeypatch.setattr(database, "SMALL_BYTES", 0)
    with traceweave.open(path) as run:
        yield run


def threads(con: duckdb.DuckDBPyConnection) -> list[tuple[int]]:
    return con.execute("SELECT current_setting('threads')").fetchall()


def test_a_small_database_has_one(
    database_of: Databases, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_of(fixtures / "ddp_gloo_4ranks")
    with (
        traceweave.open(path) as one,
        asked_as_large(path, monkeypatch) as many,
        duckdb.connect() as usual,
    ):
        assert threads(one.con) == [(1,)]
        assert threads(many.con) == threads(usual)


@nightly
def test_a_run_folder_has_all_for_its_shards(fixtures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run.tw"
    assert traceweave.ingest(fixtures / "ddp_gloo_4ranks", folder).ok
    with traceweave.open(folder) as run, duckdb.connect() as usual:
        assert threads(run.con) == threads(usual)


@nightly
def test_they_change_no_answer(
    database_of: Databases, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_of(corpus / "kineto" / "nanogpt_8xh100")
    with traceweave.open(path) as one, asked_as_large(path, monkeypatch) as many:
        assert differing_answers(one, many) == []
