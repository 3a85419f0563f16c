"""events_read = events_stored + events_skipped, by kind, counted from the tables themselves."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import orjson
from duckdb import DuckDBPyConnection as Connection

from tests.marks import nightly
from tests.robustness.conftest import Load
from tests.robustness.loading import Outcome, forget, load_file, unaccounted
from traceweave.store.database import open_database

MOST_PACKED_BYTES = 1_500_000
"""All files of the corpus are counted in tests/end_to_end, by what was read and stored."""


def check(con: Connection, outcome: Outcome, source_id: int = 1) -> None:
    kinds = {issue.kind: issue.count for issue in outcome.issues}
    assert outcome.read == outcome.stored + sum(kinds.values())
    lost = sum(n for kind, n in kinds.items() if kind != "damaged event")
    launch_arrows = con.execute(
        "SELECT count(*) FROM new_events WHERE lane = 'launch arrow' AND $1 * 1000000000 + rowid IN"
        " (SELECT op_id FROM base.other_events)",
        [source_id],
    ).fetchall()
    assert launch_arrows == [(0,)]
    missing = unaccounted(con, source_id)
    unpaired = kinds.get("unpaired arrow", 0)
    assert lost - unpaired <= len(missing) <= lost
    assert con.execute("SELECT count(*) FROM new_events").fetchall() == [
        (outcome.read - kinds.get("damaged event", 0),)
    ]


@nightly
def test_every_event_of_every_fixture(
    con: Connection, fixtures: Path, database_of: Callable[..., Path]
) -> None:
    for folder in sorted({path.parent for path in fixtures.glob("*/*.json.gz")}):
        first, *_ = files = sorted(folder.glob("*.json.gz"))
        read = [len(orjson.loads(gzip.decompress(f.read_bytes()))["traceEvents"]) for f in files]
        with open_database(database_of(folder)) as run:
            assert run.execute(
                "SELECT events_read, events_stored + events_skipped FROM sources ORDER BY path"
            ).fetchall() == [(events, events) for events in read]
        forget(con)
        outcome = load_file(con, first)  # the ranks of a run are alike
        assert (outcome.kind, outcome.read) == ("fully", read[0])
        check(con, outcome)


@nightly
def test_every_event_of_the_small_files_of_the_corpus(con: Connection, corpus: Path) -> None:
    seen = set()
    for path in sorted((corpus / "kineto").glob("*/*.json.gz")):
        if path.stat().st_size > MOST_PACKED_BYTES or path.parent in seen:
            continue
        seen.add(path.parent)  # the ranks of a run are alike
        forget(con)
        outcome = load_file(con, path)
        assert outcome.damaged is None, path
        check(con, outcome)
    assert len(seen) > 8


@nightly
def test_every_event_of_a_damaged_real_file(load: Load, con: Connection, fixtures: Path) -> None:
    whole = gzip.decompress((fixtures / "ddp_gloo_straggler" / "rank2.json.gz").read_bytes())
    half = len(whole) // 2
    damages = {
        "a hole": whole[:half] + whole[half + 3000 :],
        "zeros": whole[:half] + bytes(3000) + whole[half + 3000 :],
        "one line": json.dumps(json.loads(whole))
        .replace('"name": "aten', '"name": aten"', 3)
        .encode(),
        "no names": whole.replace(b'"ph": "X"', b'"ph": X', 5),
        "cut": whole[:half],
    }
    for name, data in damages.items():
        outcome = load(data)
        assert outcome.damaged is not None, name
        assert outcome.read > outcome.stored > 1000, name
        check(con, outcome)
