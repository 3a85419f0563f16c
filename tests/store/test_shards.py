"""Large tables as Parquet files."""

import threading
from pathlib import Path

import duckdb
import pytest

from traceweave.places import place_of
from traceweave.store import shards


def test_an_interrupt_while_a_shard_begins_leaves_no_thread_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody closed the pipe, and the process never ended: the thread waited for it."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with duckdb.connect() as con, pytest.raises(KeyboardInterrupt):
        shards._write(con, "SELECT 1 AS one", place_of(tmp_path / "0001.parquet"))
    (thread,) = started
    thread.join(timeout=30)
    assert not thread.is_alive()
