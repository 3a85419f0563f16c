"""Clocks may lie any distance apart: times need not count from the epoch, nor from one moment."""

import gzip
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import traceweave
from tests.marks import examples, first_at_once, nightly
from tests.matching.test_without_labels import LABELS, copied, strip
from traceweave import words
from traceweave.weave import weave
from traceweave_simulator import Config

Change = Callable[[dict[str, Any]], None]

HOUR_NS = 3600 * 10**9
RUN = Config(ranks=3, steps=4, layers=6, seed=11)


def changed(folder: Path, target: Path, change: Change) -> Path:
    """Write traces again, each event's arguments changed."""
    target.mkdir()
    for path in folder.iterdir():
        trace = json.loads(gzip.decompress(path.read_bytes()))
        for event in trace["traceEvents"]:
            change(event.get("args", {}))
        (target / path.name).write_bytes(gzip.compress(json.dumps(trace).encode()))
    return target


def without_seq(args: dict[str, Any]) -> None:
    args.pop("Seq", None)


def with_comms_id(args: dict[str, Any]) -> None:
    if (seq := args.pop("Seq", None)) is not None:
        args["Comms Id"] = 2**64 - 1 - 997 * seq  # no double holds it


@pytest.fixture
def nobase(corpus: Path) -> Path:
    """Rank 2's file has no base, 56 years from the others'; Seq is on the host alone."""
    return corpus / "cases" / "nobase"


@first_at_once()
@pytest.mark.parametrize(
    ("change", "match"),
    [(None, "seq"), pytest.param(with_comms_id, "seq", marks=nightly), (without_seq, "order")],
)
def test_times_of_another_base(
    change: Change | None, match: str, nobase: Path, tmp_path: Path
) -> None:
    traces = changed(nobase, tmp_path / "traces", change) if change else nobase
    assert traceweave.ingest([traces], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.con.execute(
            "SELECT count(DISTINCT collective_id), count(*), any_value(match) FROM base.matches"
        ).fetchall()
        (residual,) = run.con.execute("SELECT max(residual_p95_ns) FROM clocks").fetchall()[0]
    assert found == [(30, 90, match)]
    assert residual <= 4_950


def test_a_host_of_which_one_file_has_no_wall_clock(nobase: Path, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(3):
        name = f"node0_{4000 + rank}.1790000000000000000.pt.trace.json.gz"
        (traces / name).write_bytes((nobase / f"rank{rank}.json.gz").read_bytes())
    assert traceweave.ingest([traces], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        clocks = run.con.execute("SELECT status, offset_ns FROM clocks ORDER BY rank").fetchall()
    assert [status for status, _ in clocks] == ["aligned"] * 3
    assert abs(clocks[2][1] - 1_790_000_000_000_218_000) < 2_000
    assert words.cell("offset_ns", clocks[2][1]) == "1,790,000,000 s"


def shift(con: duckdb.DuckDBPyConnection, offsets: list[int]) -> None:
    for rank, offset in enumerate(offsets):
        con.execute(
            "UPDATE base.collective_calls SET start_local_ns = start_local_ns + $1 WHERE rank = $2",
            [offset, rank],
        )
        con.execute(
            "UPDATE base.rank_sources SET first_local_ns = first_local_ns + $1,"
            " last_local_ns = last_local_ns + $1, host = NULL WHERE rank = $2",
            [offset, rank],
        )


def instances(con: duckdb.DuckDBPyConnection) -> list[tuple[int, ...]]:
    weave(con)
    # how instances are numbered is no matter
    return con.execute(
        "SELECT list(call_id ORDER BY call_id) AS calls FROM base.matches"
        " WHERE collective_id IS NOT NULL GROUP BY collective_id ORDER BY calls"
    ).fetchall()


@nightly
@settings(max_examples=examples(12))
@given(st.lists(st.integers(-9 * HOUR_NS, 9 * HOUR_NS), min_size=3, max_size=3), st.booleans())
def test_matches_do_not_depend_on_where_clocks_begin(
    simulated_database: Callable[[Config], Path], offsets: list[int], labelled: bool
) -> None:
    apart = [abs(a - b) for a, b in combinations(offsets, 2)]
    # at the 5 s within which shifts are looked at first, some lie within and some beyond
    assume(all(abs(distance - 5_000_000_000) > HOUR_NS / 3_600 for distance in apart))
    with copied(simulated_database(RUN)) as con:
        strip(con, "seq" if labelled else LABELS)
        shift(con, [0, 0, 0])
        expected = instances(con)
        assert expected
        shift(con, offsets)
        assert instances(con) == expected
        ahead = dict(con.execute("SELECT rank, offset_ns FROM clocks").fetchall())
        for rank in (1, 2):
            assert abs(ahead[rank] - ahead[0] + offsets[rank] - offsets[0]) < 20_000
