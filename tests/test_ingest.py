"""Ingest: every file accounted for, one bad file alone, and never half a database."""

import gzip
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.cases import cases
from tests.marks import first_at_once, nightly
from traceweave.errors import InputError, UsageError
from traceweave.ingestion import IngestResult, ingest
from traceweave.ingestion.record import note_ranks_without_gpu_work
from traceweave.sources import kineto, nsys
from traceweave.sources.find import PassedOver
from traceweave.store.database import open_database

from .tiny import START, Tiny, write, write_report

NO_JSON = "not JSON, as profilers write it; copy it again, or record again"
DEFECT = (
    "LookupError: no such key: this is a defect of traceweave; report it with what"
    " TRACEWEAVE_DEBUG=1 shows"
)


def read(*paths: Path, output: Path, **options: object) -> IngestResult:
    formats = (Tiny(), nsys, kineto)
    return ingest(paths, output, formats=formats, **options)  # type: ignore[arg-type]


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with open_database(database) as con:
        return con.execute(query).fetchall()


def left_beside(database: Path) -> list[str]:
    return sorted(entry.name for entry in database.parent.iterdir() if entry.name.startswith("."))


@first_at_once()
@cases
def test_what_a_run_has_no_use_for_is_not_imported(
    tmp_path: Path, fixtures: Path, traces: str, unused: set[str]
) -> None:
    """Each of these takes longer to import than a small file to load."""
    script = (
        "import sys; from traceweave import ingest; ingest(sys.argv[1], sys.argv[2]);"
        " print(*sys.modules)"
    )
    command = [sys.executable, "-c", script, str(fixtures / traces), str(tmp_path / "run.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert unused.isdisjoint(done.stdout.split())


def test_a_real_run_of_four_ranks_is_ingested_and_woven(tmp_path: Path, fixtures: Path) -> None:
    database, watcher = tmp_path / "run.duckdb", Watcher()

    result = ingest(fixtures / "ddp_gloo_4ranks", database, progress=watcher)

    assert result.ok
    # progress adds up to the size of the files
    assert watcher.read == watcher.sizes
    assert len(watcher.read) == 4
    assert [source.ranks for source in result.sources] == [(0,), (1,), (2,), (3,)]
    assert result.weave.instances > 0
    assert rows(database, "SELECT rank, world_size, rank_source FROM ranks ORDER BY rank") == [
        (rank, 4, "distributedInfo") for rank in range(4)
    ]
    assert rows(
        database,
        "SELECT count(*) FROM sources WHERE events_read <> events_stored + events_skipped"
        " OR events_read = 0",
    ) == [(0,)]
    assert rows(database, "SELECT status FROM sources") == [("ok",)] * 4
    assert left_beside(database) == []


def test_everything_about_each_file_is_recorded(tmp_path: Path) -> None:
    folder, database = tmp_path / "traces", tmp_path / "run.duckdb"
    good = write_report(
        folder / "a.json", [{"rank": 0, "pid": 7}], ops=[[5, 10], [20, 2]], odd=True
    )
    torn = write_report(folder / "b.json", [{"rank": 1, "pid": 8}], damaged="cut off after 1 event")
    bad = write_report(folder / "c.json", [{"rank": 2, "pid": 9}], fails="no such key")
    notes = folder / "notes.txt"
    notes.write_text("hello")
    killed = folder / "d.json"
    killed.write_text("Killed")

    result = read(folder, output=database)

    sizes = {path: path.stat().st_size for path in (good, torn, bad, killed)}
    assert not result.ok
    assert result.passed_over == (PassedOver(notes, "not a trace"),)
    assert rows(
        database,
        "SELECT source_id, path, size_bytes, events_read, events_stored, events_skipped, status,"
        " message FROM sources ORDER BY source_id",
    ) == [
        (0, str(good), sizes[good], 3, 2, 1, "ok", None),
        (1, str(torn), sizes[torn], 1, 1, 0, "partial", "cut off after 1 event"),
        (2, str(bad), sizes[bad], 0, 0, 0, "failed", DEFECT),
        (3, str(killed), sizes[killed], 0, 0, 0, "failed", NO_JSON),
    ]
    assert rows(database, "SELECT * FROM ingest_issues ORDER BY source_id NULLS LAST, kind") == [
        (0, "odd", 1, "its name", "an odd event"),
        (1, "file damaged", 0, str(torn), "cut off after 1 event"),
        (2, "file not read", None, str(bad), DEFECT),
        (3, "file not read", None, str(killed), NO_JSON),
        (None, "passed over", 0, str(notes), "not a trace"),
    ]
    assert rows(database, "SELECT rank, first_local_ns, last_local_ns FROM ranks ORDER BY 1") == [
        (0, START + 5, START + 22),
        (1, START, START + 1),
    ]
    assert rows(database, "SELECT DISTINCT source_id FROM base.host_ops ORDER BY 1") == [(0,), (1,)]


@nightly
def test_broken_real_files_do_not_stop_the_others(tmp_path: Path, fixtures: Path) -> None:
    folder, database = tmp_path / "traces", tmp_path / "run.duckdb"
    folder.mkdir()
    for rank in range(4):
        name = f"rank{rank}.json.gz"
        (folder / name).write_bytes((fixtures / "ddp_gloo_4ranks" / name).read_bytes())
    whole = (folder / "rank1.json.gz").read_bytes()
    (folder / "rank1.json.gz").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "rank2.json.gz").write_bytes(gzip.compress(b"<html>404</html>"))
    foreign = sqlite3.connect(folder / "rank9.sqlite")
    foreign.execute("CREATE TABLE notes (text)")
    foreign.close()

    result = ingest(folder, database)

    assert {source.path.name: source.status for source in result.sources} == {
        "rank0.json.gz": "ok", "rank1.json.gz": "partial", "rank2.json.gz": "failed",
        "rank3.json.gz": "ok", "rank9.sqlite": "failed",
    }  # fmt: skip
    torn = next(source for source in result.sources if source.path.name == "rank1.json.gz")
    assert torn.events_stored > 0
    assert rows(database, "SELECT rank FROM ranks ORDER BY rank") == [(0,), (1,), (3,)]


@nightly
@pytest.mark.parametrize("stated", ["", '"distributedInfo": {"rank": 0, "world_size": 4},'])
def test_a_file_without_events_is_reported_and_stops_no_other(
    tmp_path: Path, fixtures: Path, stated: str
) -> None:
    folder, database = tmp_path / "traces", tmp_path / "run.duckdb"
    folder.mkdir()
    for rank in range(1, 4):
        name = f"rank{rank}.json.gz"
        (folder / name).write_bytes((fixtures / "ddp_gloo_4ranks" / name).read_bytes())
    empty = folder / "trace.json"
    empty.write_text(f'{{"schemaVersion": 1, {stated} "traceEvents": [\r\n]}}')

    result = ingest(folder, database)

    of_rank = " of rank 0" if stated else ""
    assert result.ok
    assert result.notes == (
        f"trace.json: it holds no events: nothing{of_rank} was recorded",
        "3 of 4 ranks recorded: those that make others wait may be missing",
    )
    assert rows(
        database, "SELECT path, events_read, status FROM sources WHERE events_read = 0"
    ) == [(str(empty), 0, "ok")]
    assert rows(database, "SELECT rank FROM ranks ORDER BY rank") == [(1,), (2,), (3,)]
    assert rows(database, "SELECT message FROM ingest_issues WHERE kind = 'note'") == [
        (result.notes[0],)
    ]


@nightly
def test_a_file_without_events_takes_its_number_in_names_that_count(
    tmp_path: Path, fixtures: Path
) -> None:
    for rank in (0, 2):
        packed = (fixtures / "ddp_gloo_4ranks" / f"rank{rank}.json.gz").read_bytes()
        unsaid = gzip.decompress(packed).replace(f'"rank": {rank}'.encode(), b'"rank": null')
        (tmp_path / f"t_{rank}.json").write_bytes(unsaid)
    (tmp_path / "t_1.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    result = ingest(tmp_path, tmp_path / "run.duckdb")
    assert [source.ranks for source in result.sources] == [(0,), (2,), ()]


def test_files_without_any_event_leave_the_old_database(tmp_path: Path) -> None:
    database, empty = tmp_path / "run.duckdb", tmp_path / "trace.json"
    read(write(tmp_path / "good.json", rank=5), output=database)
    empty.write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(InputError, match=r"trace.json: no events, record again; nothing could be"):
        ingest(empty, database)
    assert rows(database, "SELECT rank FROM ranks") == [(5,)]


def test_if_nothing_can_be_read_the_old_database_stays(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    read(write(tmp_path / "good.json", rank=5), output=database)
    bad = write_report(tmp_path / "bad.json", [{"rank": 0}], fails="oh")
    with pytest.raises(InputError, match=r"bad.json: LookupError: oh: .*; nothing could be read"):
        read(bad, output=database)
    assert rows(database, "SELECT rank FROM ranks") == [(5,)]
    assert left_beside(database) == []


def test_windows_that_turn_out_to_overlap_are_refused(tmp_path: Path) -> None:
    for name, start in (("a", 0), ("b", 50)):
        write_report(
            tmp_path / f"{name}.json", [{"rank": 0, "pid": 1}], at=None, ops=[[start, 100]]
        )
    with pytest.raises(InputError, match="both claim rank 0 for overlapping times"):
        read(tmp_path, output=tmp_path / "run.duckdb")
    assert not (tmp_path / "run.duckdb").exists()


@nightly
def test_the_tables_do_not_depend_on_the_number_of_jobs(tmp_path: Path, fixtures: Path) -> None:
    answers = []
    for jobs in (1, 4):
        database = tmp_path / f"{jobs}.duckdb"
        ingest(fixtures / "ddp_gloo_4ranks", database, jobs=jobs)
        answers.append(
            [
                rows(database, f"SELECT * FROM {table} ORDER BY ALL")
                for table in ("sources", "host_ops", "collectives", "clocks", "ingest_issues")
            ]
        )

    assert answers[0] == answers[1]


def test_jobs_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="jobs must be at least 1, not 0"):
        read(tmp_path, output=tmp_path / "run.duckdb", jobs=0)


class Watcher:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.read: dict[str, int] = {}
        self.finished: dict[str, str] = {}
        self.stages: list[str] = []

    def begin(self, sources: Sequence[tuple[Path, int]]) -> None:
        self.sizes = {path.name: size for path, size in sources}

    def advance(self, path: Path, bytes_read: int) -> None:
        self.read[path.name] = self.read.get(path.name, 0) + bytes_read

    def finish(self, path: Path, status: str) -> None:
        self.finished[path.name] = status

    def stage(self, text: str) -> None:
        self.stages.append(text)


def test_progress_tells_every_byte_and_every_end(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"{rank}.json", rank=rank)
    watcher = Watcher()
    read(tmp_path, output=tmp_path / "run.duckdb", progress=watcher)
    assert watcher.read == watcher.sizes
    assert watcher.finished == {"0.json": "ok", "1.json": "ok", "2.json": "ok"}
    assert watcher.stages == [
        "looking at the files", "matching collectives, fitting clocks", "writing the database",
    ]  # fmt: skip


def test_an_interrupt_leaves_the_old_database_and_nothing_else(tmp_path: Path) -> None:
    class Interrupter(Watcher):
        def stage(self, text: str) -> None:
            raise KeyboardInterrupt

    database = tmp_path / "run.duckdb"
    read(write(tmp_path / "old.json", rank=5), output=database)
    new = write(tmp_path / "new.json", rank=6)

    with pytest.raises(KeyboardInterrupt):
        read(new, output=database, progress=Interrupter())

    assert rows(database, "SELECT rank FROM ranks") == [(5,)]
    assert left_beside(database) == []


HANGS_WHILE_LOADING = """
import sys
from pathlib import Path
from tests.tiny import Tiny
from traceweave.ingestion import ingest

class Hanging(Tiny):
    def load(self, con, trace, source_id, report):
        loaded = super().load(con, trace, source_id, report)
        print("loading", flush=True)
        sys.stdin.read()
        return loaded

ingest(sys.argv[1], sys.argv[2], formats=(Hanging(),))
"""


def test_a_kill_leaves_the_old_database_and_the_next_ingest_cleans_up(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    old = write(tmp_path / "old.json", rank=5)
    new = write(tmp_path / "new.json", rank=6)
    read(old, output=database)
    child = subprocess.Popen(
        [sys.executable, "-c", HANGS_WHILE_LOADING, str(new), str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == b"loading\n"

    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()

    assert rows(database, "SELECT rank FROM ranks") == [(5,)]
    assert len(left_beside(database)) >= 1
    read(new, output=database)
    assert rows(database, "SELECT rank FROM ranks") == [(6,)]
    assert left_beside(database) == []


def test_two_ingests_into_one_target_leave_one_whole_database(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    traces = [write(tmp_path / f"{rank}.json", rank=rank) for rank in range(2)]
    threads = [
        threading.Thread(target=read, args=(trace,), kwargs={"output": database})
        for trace in traces
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert rows(database, "SELECT rank FROM ranks") in ([(0,)], [(1,)])
    assert left_beside(database) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("my notes"), "exists and is not a traceweave database"),
        (lambda path: duckdb.connect(path).close(), "exists and is not a traceweave database"),
        (lambda path: path.mkdir(), "is a folder; name a file"),
    ],
)
def test_a_target_that_is_not_ours_is_refused(tmp_path: Path, make, message: str) -> None:  # type: ignore[no-untyped-def]
    trace = write(tmp_path / "t.json", rank=0)
    target = tmp_path / "target"
    make(target)
    before = target.is_dir() or target.read_bytes()
    with pytest.raises(UsageError, match=message):
        read(trace, output=target)
    assert (target.is_dir() or target.read_bytes()) == before


def test_a_target_in_no_folder_or_a_closed_one_is_refused(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.json", rank=0)

    with pytest.raises(InputError, match="does not exist; create it first"):
        read(trace, output=tmp_path / "none" / "run.duckdb")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    if os.geteuid() != 0:  # root may write anywhere
        with pytest.raises(InputError, match="cannot be written"):
            read(trace, output=closed / "run.duckdb")
    if Path("/proc/self").exists():  # where nobody may make a file, whatever room there is
        for name in ("run.duckdb", "run.tw"):
            with pytest.raises(InputError) as refused:
                read(trace, output=Path("/proc") / name)
            assert str(refused.value) == (
                f"/proc/{name}: cannot be written: No such file or directory; name another place"
                " with -o"
            )


@nightly
def test_a_write_ahead_log_of_the_old_database_is_not_played_into_the_new(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    trace = write(tmp_path / "t.json", rank=0)
    read(trace, output=database)
    leaves_log = (
        "import duckdb, os, sys; con = duckdb.connect(sys.argv[1]);"
        "con.execute('CREATE TABLE mine (a INT)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", leaves_log, str(database)], check=True)
    log = database.with_name("run.duckdb.wal")
    assert log.exists()

    read(trace, output=database)

    assert not log.exists()
    assert rows(database, "SELECT rank FROM ranks") == [(0,)]


def test_a_link_to_the_database_stays_a_link(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.json", rank=0)
    (tmp_path / "real").mkdir()
    link = tmp_path / "run.duckdb"
    link.symlink_to(tmp_path / "real" / "run.duckdb")
    read(trace, output=link)
    assert link.is_symlink()
    assert rows(tmp_path / "real" / "run.duckdb", "SELECT rank FROM ranks") == [(0,)]


@nightly
@pytest.mark.parametrize(
    "name", ["fsdp_2rank_before__2026.2.sqlite", "fsdp_2rank_after__2026.2.sqlite"]
)
def test_a_real_report_of_two_ranks(
    database_of: Callable[..., Path], corpus: Path, name: str
) -> None:
    database = database_of(corpus / "nsys" / name)
    assert rows(database, "SELECT rank FROM ranks ORDER BY rank") == [(0,), (1,)]
    notes = rows(database, "SELECT message FROM ingest_issues WHERE kind = 'note'")
    assert any("taken from the order of devices in the report" in str(note) for (note,) in notes)


def test_real_ranks_of_one_host_are_ingested_with_every_collective_matched(
    database_of: Callable[..., Path], corpus: Path
) -> None:
    assert rows(
        database_of(corpus / "kineto" / "megatron_tp8"),
        "SELECT count(*), count(*) FILTER (complete) FROM collective_instances",
    ) == [(84, 84)]


def test_a_rank_that_is_beyond_the_job_is_said(tmp_path: Path) -> None:
    event = '{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":1,"dur":1}'
    for rank in (0, 1, 3, 92):
        info = f'"distributedInfo":{{"rank":{rank},"world_size":4}}'
        (tmp_path / f"{rank}.json").write_text(f'{{{info},"traceEvents":[{event}]}}')
    note = (
        "rank 92 cannot be in a job of 4 (world size): another run's, or a wrong number, which"
        " --rank FILE=N mends"
    )

    found = ingest(tmp_path, tmp_path / "run.duckdb")

    assert note in found.notes
    with traceweave.open(tmp_path / "run.duckdb") as run:
        said = [caution.text for caution in run.info().warnings]
    assert note in said
    assert any(text.startswith("1 of 4 ranks are not here") for text in said)


@cases
def test_ranks_without_kernels_are_said_where_others_have_some(
    empty_run: duckdb.DuckDBPyConnection, kinds: dict[int, list[str]], notes: list[str]
) -> None:
    for rank, its in kinds.items():
        empty_run.execute(
            "INSERT INTO base.rank_sources BY NAME SELECT $1 AS rank, $1 AS source_id,"
            " 'test' AS rank_source, 'nsys' AS format",
            [rank],
        )
        for kind in its:
            table, more = "gpu_ops", ", 'x' AS category, 'x' AS class"
            if kind == "op":
                table, more = "host_ops", ""
            empty_run.execute(
                f"INSERT INTO base.{table} BY NAME SELECT $1 AS rank, 0 AS op_id, $1 AS source_id,"
                f" $2 AS kind, 'x' AS name, 0 AS start_local_ns, 1 AS duration_ns{more}",
                [rank, kind],
            )

    found = note_ranks_without_gpu_work(empty_run)

    assert [note.partition(", though")[0] for note in found] == notes
