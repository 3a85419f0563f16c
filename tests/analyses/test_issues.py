import gzip
from pathlib import Path

import traceweave
from tests.analyses.builders import Builder, rows
from tests.marks import nightly

FILES = """
    INSERT INTO sources VALUES
        (0, 'a.json', 'kineto', NULL, NULL, 1, 20, 10, 10, 'partial', NULL),
        (1, 'b.json', 'kineto', NULL, NULL, 1, 20, 18, 2, 'partial', NULL);
    INSERT INTO ingest_issues VALUES
        (1, 'cut off', 2, 'y', 'the file ends early'),
        (0, 'cut off', 3, 'x', 'the file ends early'),
        (0, 'no time', 7, 'z', 'an event without ts'),
        (NULL, 'passed over', 0, 'notes.txt', 'no trace')
"""


def test_what_several_files_have_is_one_row(build: Builder) -> None:
    build.con.execute(FILES)
    assert [tuple(row.values()) for row in rows(build.con, "issues")] == [
        ("no time", 7, 1, "an event without ts", "z", "a.json"),
        ("cut off", 5, 2, "the file ends early", "x", "a.json"),
        ("passed over", 0, 0, "no trace", "notes.txt", None),
    ]


@nightly
def test_every_event_that_a_real_trace_lost_is_counted(fixtures: Path, tmp_path: Path) -> None:
    whole = gzip.decompress((fixtures / "ddp_gloo_straggler" / "rank0.json.gz").read_bytes())
    trace = tmp_path / "rank0.json"
    trace.write_bytes(whole.replace(b'"name": "aten::mm"', b'"name": "aten::mm', 1))
    traceweave.ingest([trace], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.issues().set_index("kind")
        [[skipped]] = run.sql("SELECT events_skipped FROM sources").to_numpy().tolist()
    # the event itself, and the arrow that began or ended in it; its partners were lost to no file
    assert found.loc[["damaged event", "unpaired arrow"], "events"].tolist() == [1, 2]
    assert skipped == 3
    assert found.loc["damaged event", "path"] == str(trace)
