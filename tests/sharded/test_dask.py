"""Batches on Dask's workers: the same run, whatever happens to a worker."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly
from tests.sharded.equal import differing_tables, rows, same_rows
from traceweave.errors import UsageError
from traceweave.ingestion.load import Silent
from traceweave.ingestion.workers import Workers

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
pytestmark = pytest.mark.filterwarnings("default")

DatabaseOf = Callable[..., Path]


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Two workers of a cluster that somebody else has started."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as it,
        distributed.Client(it) as client,
    ):
        yield client


class Watched(Silent):
    """Progress that calls `once` the first time that a file is read."""

    def __init__(self, once: Callable[[Path], object]) -> None:
        self.bytes_read = 0
        self.finished: list[Path] = []
        self._once: Callable[[Path], object] | None = once

    def advance(self, path: Path, bytes_read: int) -> None:
        self.bytes_read += bytes_read
        once, self._once = self._once, None
        if once is not None:
            once(path)

    def finish(self, path: Path, status: str) -> None:
        self.finished.append(path)


@nightly
def test_workers_write_the_same_run(
    client: distributed.Client,
    traces: Path,
    tmp_path: Path,
    database_of: DatabaseOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", client.scheduler.address)
    watched = Watched(lambda _: None)
    traceweave.ingest(traces, tmp_path / "run.tw", dask="auto", progress=watched)
    with traceweave.open(database_of(traces)) as one, traceweave.open(tmp_path / "run.tw") as other:
        assert differing_tables(one, other) == []
    assert sorted(watched.finished) == sorted(traces.iterdir())
    assert watched.bytes_read == sum(path.stat().st_size for path in traces.iterdir())
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.tw"]


@nightly
def test_workers_answer_as_one_process_does(
    client: distributed.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    in_order = Workers.in_order

    def counting(self: Workers, function: Any, tasks: Sequence[tuple[Any, ...]]) -> Any:
        asked.append(f"{tasks[0][2]}: {len(tasks)}")
        return in_order(self, function, tasks)

    monkeypatch.setattr(Workers, "in_order", counting)
    with (
        traceweave.open(folder) as here,
        traceweave.open(folder, dask=client.scheduler.address) as there,
    ):
        for name in ("gaps", "pop", "kernels"):
            one, other = (rows(run.stream_analysis(name)) for run in (here, there))
            assert same_rows(one, other)
    assert asked == ["gaps: 2", "breakdown: 2"]


@nightly
def test_a_worker_that_is_killed_costs_its_batch_only(
    client: distributed.Client, traces: Path, tmp_path: Path, database_of: DatabaseOf
) -> None:
    pids = client.run(os.getpid)
    killed = []

    def kill(_: Path) -> None:
        busy = [worker for worker, tasks in client.processing().items() if tasks]
        killed.append(pids[busy[0]])
        os.kill(pids[busy[0]], signal.SIGKILL)

    address = client.scheduler.address
    traceweave.ingest(traces, tmp_path / "run.tw", dask=address, progress=Watched(kill))
    assert len(killed) == 1
    with traceweave.open(database_of(traces)) as one, traceweave.open(tmp_path / "run.tw") as other:
        assert differing_tables(one, other) == []
    assert traceweave.verify(tmp_path / "run.tw") > 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.tw"]


@nightly
def test_a_bad_file_is_a_row(client: distributed.Client, traces: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(traces, tmp_path / "traces"))
    broken = sorted(mine.iterdir())[1]
    broken.write_bytes(broken.read_bytes()[:20_000])
    result = traceweave.ingest(mine, tmp_path / "run.tw", dask=client.scheduler.address)
    assert not result.ok
    with traceweave.open(tmp_path / "run.tw") as run:
        bad = run.sql("SELECT path FROM sources WHERE status <> 'ok'").to_numpy().tolist()
        assert bad == [[str(broken)]]
        assert len(run.sql("SELECT DISTINCT rank FROM gpu_ops")) >= 3


@nightly
def test_ctrl_c_leaves_nothing_behind(traces: Path, tmp_path: Path) -> None:
    arguments = [
        "ingest", str(traces), "-o", str(tmp_path / "run.tw"), "--dask", "local", "-j", "1",
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "traceweave", *arguments],
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as child:
        until = time.monotonic() + 60
        while not list(tmp_path.glob(".run.tw.*/workers")) and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does
        said = child.communicate()[1].decode()
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@nightly
def test_what_is_no_cluster_is_said(traces: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither 'local' nor"):
        traceweave.ingest(traces, tmp_path / "run.tw", dask="trace")
    with pytest.raises(UsageError, match="run folders"):
        traceweave.ingest(traces, tmp_path / "run.duckdb", dask="local")
    assert list(tmp_path.iterdir()) == []
