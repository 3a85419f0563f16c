"""Files that are loaded together: the same rows as one by one, and one bad file alone."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from tests.marks import at_once, nightly
from traceweave import weave
from traceweave.ingestion import ingest, load, packs
from traceweave.ingestion.packs import pack
from traceweave.sources import kineto, nsys
from traceweave.sources.discover import Source
from traceweave.sources.formats import Format
from traceweave.sources.model import Process, Trace

from .test_ingest import Watcher, rows

TABLES = (
    "SELECT schema_name || '.' || table_name FROM duckdb_tables()"
    " WHERE database_name = 'one' AND table_name <> 'meta' ORDER BY 1"
)


def differences(one: Path, other: Path) -> list[str]:
    """The tables of two databases that differ in a row or in how often it is there."""
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{one}' AS one (READ_ONLY)")
        con.execute(f"ATTACH '{other}' AS other (READ_ONLY)")
        tables = [name for (name,) in con.execute(TABLES).fetchall()]
        assert "base.gpu_ops" in tables
        pairs = [(a, b, table) for table in tables for a, b in (("one", "other"), ("other", "one"))]
        return [
            table
            for a, b, table in pairs
            if con.execute(f"FROM {a}.{table} EXCEPT ALL FROM {b}.{table} LIMIT 1").fetchall()
        ]


def load_both_ways(
    traces: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """Databases of the same files, loaded together and one by one."""
    together, apart = folder / "together.duckdb", folder / "apart.duckdb"
    ingest(traces, together, jobs=1)
    monkeypatch.setattr(packs, "MOST_BYTES", 1)
    ingest(traces, apart, jobs=1)
    return together, apart


@pytest.mark.parametrize(
    "name", at_once(["megatron_tp2", "nanogpt_8xh100", "torchrec_4"], "megatron_tp2")
)
def test_traces_loaded_together_give_the_rows_of_each_by_itself(
    name: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, apart = load_both_ways(corpus / "kineto" / name, tmp_path, monkeypatch)
    assert differences(together, apart) == []


@nightly
def test_recordings_loaded_together_give_the_rows_of_each_by_itself(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, apart = load_both_ways(fixtures / "ddp_gloo_4ranks", tmp_path, monkeypatch)
    for table in ("flows", "memory_events", "collective_calls", "steps"):
        assert rows(together, f"SELECT count(DISTINCT rank) FROM base.{table}") == [(4,)]
    assert differences(together, apart) == []


def event(ph: str, ts: float, **rest: object) -> dict[str, object]:
    return {"ph": ph, "ts": ts, "pid": 1, "tid": 1, "cat": "cpu_op", "name": "aten::add", **rest}


def events(rank: int) -> list[dict[str, object]]:
    """Events that would go with those of another rank if files were taken for one: the same ids and
    threads at the same times, and on rank 0 what partners on rank 1 lack."""
    call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 2}
    kernel = {"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0}
    first, second = (0, 1) if rank == 0 else (1, 0)
    both = [
        event("X", 1, dur=50, name="record_param_comms", args={"dtype": f"{rank}"}, tid=2),
        event("X", 2, dur=20, name="ProfilerStep#1", cat="user_annotation"),
        event("X", 10, dur=5, args={"correlation": 7, "External id": 3}, **call),
        event("X", 20, dur=9, args={"correlation": 7, "stream": 3, "device": 0}, **kernel),
        event("B", 30 + first, name="outer"),
        event("E", 34 + second, name="outer"),
        event("s", 1, id=5, cat="fwdbwd", name="fwdbwd", tid=2),
        event("C", 3, name="GPU 0 Utilization", args={"value": rank}),
        event("i", 4, name="[memory]", args={"Bytes": 8 + rank, "Device Type": 1, "Device Id": 0}),
        event("f", 20, id=7, cat="ac2g", name="ac2g", tid=3),
        {"ph": "X", "name": "no time", "ts": "soon"},
        event("X", 5, dur=-1 - rank),
    ]
    partners = [
        event("X", 60, dur=5, args={"correlation": 8}, **call),
        event("f", 60, id=5, cat="fwdbwd", name="fwdbwd", tid=2),
        event("E", 90),
    ]
    lacking = [event("f", 60, id=8, cat="ac2g", name="ac2g"), event("B", 80)]
    return both + (partners if rank == 0 else lacking)


@nightly
def test_events_of_files_loaded_together_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank, groups in enumerate((["one"], ["one", "other"])):
        config = [{"pg_name": name, "ranks": [0, 1], "pg_size": 2} for name in groups]
        info = {"rank": rank, "world_size": 2, "pg_config": config}
        trace = {"distributedInfo": info, "traceEvents": events(rank)}
        (traces / f"rank{rank}.json").write_text(json.dumps(trace))

    together, apart = load_both_ways(traces, tmp_path, monkeypatch)

    assert differences(together, apart) == []
    assert rows(
        together, "SELECT rank, group_name, dtype FROM base.collective_calls ORDER BY 1"
    ) == [(0, "one", "0"), (1, None, "1")]
    assert rows(together, "SELECT rank, count(*) FROM base.flows GROUP BY 1") == [(0, 1)]
    lost = "SELECT source_id, kind, count FROM ingest_issues WHERE source_id >= 0 ORDER BY ALL"
    assert rows(together, lost) == [
        (0, "negative duration", 1), (0, "no usable timestamp", 1), (0, "unpaired B/E", 1),
        (1, "negative duration", 1), (1, "no usable timestamp", 1), (1, "unpaired B/E", 1),
        (1, "unpaired arrow", 2),
    ]  # fmt: skip


class Remover(Watcher):
    """Takes a file away after it was looked at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def begin(self, sources: Sequence[tuple[Path, int]]) -> None:
        super().begin(sources)
        self._path.unlink()


@nightly
def test_a_file_that_fails_among_others_takes_none_down(fixtures: Path, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    shutil.copytree(fixtures / "ddp_gloo_4ranks", traces)
    whole, lacking = tmp_path / "whole.duckdb", tmp_path / "lacking.duckdb"
    ingest(traces, whole, jobs=1)
    watcher = Remover(traces / "rank2.json.gz")

    result = ingest(traces, lacking, jobs=1, progress=watcher)

    assert {s.path.name: s.status for s in result.sources} == watcher.finished
    assert watcher.finished == {f"rank{n}.json.gz": "failed" if n == 2 else "ok" for n in range(4)}
    assert [*rows(lacking, "SELECT message FROM sources WHERE status = 'failed'")] == [
        (f"[Errno 2] No such file or directory: '{traces / 'rank2.json.gz'}'",)
    ]
    for table in ("base.host_ops", "base.collective_calls", "base.rank_sources"):
        of_others = f"SELECT * FROM {table} WHERE rank <> 2 ORDER BY ALL"
        assert rows(lacking, of_others) == rows(whole, of_others)
        assert rows(lacking, f"SELECT count(*) FROM {table} WHERE rank = 2") == [(0,)]


@nightly
def test_a_file_that_is_cut_short_keeps_what_it_has_among_others(
    fixtures: Path, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    shutil.copytree(fixtures / "ddp_gloo_4ranks", traces)
    cut = traces / "rank1.json.gz"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size * 3 // 4])
    alone, together = tmp_path / "alone.duckdb", tmp_path / "together.duckdb"
    ingest(cut, alone)
    result = ingest(traces, together, jobs=1)
    assert [source.status for source in result.sources] == ["ok", "partial", "ok", "ok"]
    counts = "SELECT events_read, events_stored, message FROM sources WHERE status = 'partial'"
    assert rows(together, counts) == rows(alone, counts)


def source(
    name: str, ranks: Sequence[int], size_bytes: int = 100, format_: Format = kineto
) -> Source:
    processes = tuple(Process(key=rank, rank=rank) for rank in ranks)
    path = Path(name)
    return Source(Trace(path, "any", size_bytes, processes), format_, path)


def test_what_is_packed_together() -> None:
    large = packs.MOST_BYTES
    files = {
        0: source("large.json", [0], large),
        1: source("large when unpacked.json.gz", [1], large // 8),
        2: source("first window.json", [2]), 3: source("second window.json", [2]),
        4: source("without a rank.json", []), 5: source("small.json", [5]),
        6: source("report.sqlite", [6], format_=nsys), 7: source("small too.json", [7]),
    }  # fmt: skip

    packed = [sorted(files) for files in pack(files, jobs=1)]

    assert sorted(packed) == [[0], [1], [2, 5], [3, 7], [4], [6]]
    assert packed[0] == [1]
    assert [sorted(files) for files in pack({n: files[n] for n in (2, 5, 7)}, jobs=2)] == [
        [2, 7],
        [5],
    ]


@nightly
@pytest.mark.parametrize(
    ("constants", "threads"),
    [({}, 1), ({(load, "LITTLE_BYTES"): 0}, 3), ({(packs, "MOST_BYTES"): 1}, 3)],
    ids=["little", "many small files", "a large file"],
)
def test_little_json_is_woven_by_one_thread_of_duckdb(
    constants: dict[tuple[object, str], int],
    threads: int,
    fixtures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    woven = weave.weave

    def watched(con: duckdb.DuckDBPyConnection) -> weave.WeaveSummary:
        found.extend(con.execute("SELECT current_setting('threads')").fetchall()[0])
        return woven(con)

    monkeypatch.setattr(weave, "weave", watched)
    for (module, name), value in constants.items():
        monkeypatch.setattr(module, name, value)
    ingest(fixtures / "fsdp2_gloo", tmp_path / "run.duckdb", jobs=3)

    assert found == [threads]
