"""Recorded runs of one named host in which ends say little: threads wait for cores, or a call does
not wait for every rank."""

import gzip
import json
from pathlib import Path

import traceweave


def test_a_rank_that_began_a_step_later_has_the_rest(fixtures: Path, tmp_path: Path) -> None:
    for path in (fixtures / "busy_cores_gloo").iterdir():
        trace = json.loads(gzip.decompress(path.read_bytes()))
        events = trace["traceEvents"]
        if path.name == "rank1.json.gz":
            since = next(e["ts"] for e in events if e["name"] == "ProfilerStep#4")
            trace["traceEvents"] = [e for e in events if e["ph"] != "X" or e["ts"] >= since]
        (tmp_path / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    assert traceweave.ingest([tmp_path], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.sql(
            "SELECT min(step) AS step, count(DISTINCT step) AS steps, count(*) AS ranks"
            " FROM collectives GROUP BY collective_id ORDER BY step"
        )
        assert (
            found.values.tolist()
            == [[3, 1, 3]] * 5 + [[4, 1, 4]] * 5 + [[5, 1, 4]] * 5 + [[6, 1, 4]] * 5
        )
