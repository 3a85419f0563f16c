"""Batches on the workers of a Dask cluster. Nothing else imports Dask."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from traceweave.errors import InputError, UsageError
from traceweave.ingestion.batches import Batch, Batched, load_batch
from traceweave.ingestion.load import Progress, Silent
from traceweave.interrupts import held_back
from traceweave.places import Place
from traceweave.store.draft import draft_memory_mib

if TYPE_CHECKING:
    from distributed import Client, Future

Result = TypeVar("Result")

LOCAL = "local"
AUTO = "auto"
"""The scheduler that DASK_SCHEDULER_ADDRESS names, else a cluster on this machine."""

_ADDRESS_VARIABLE = "DASK_SCHEDULER_ADDRESS"
_BESIDE_DUCKDB_MIB = 1024
"""What a worker needs beside DuckDB: Python, the events being cut, the tables it hands back."""
_DUCKDB_SHARE = 0.5
"""Of the memory of a worker that somebody else has started."""
_ASSUMED_MIB = 2048
"""Memory of a worker that has no limit."""
_TOPIC = "traceweave-progress"
_CONNECT_S = "30s"


@dataclass(frozen=True)
class Workers:
    """Loads batches on workers, as many at a time as they have threads."""

    client: Client

    @property
    def at_once(self) -> int:
        """How many batches can be loaded at the same time."""
        threads: dict[str, int] = self.client.nthreads()
        return max(1, sum(threads.values()))

    @property
    def memory_mib(self) -> int:
        """What the smallest worker has for one batch."""
        known = self.client.scheduler_info(n_workers=-1)["workers"].values()
        shares = [w["memory_limit"] // w["nthreads"] for w in known if w["memory_limit"]]
        return min(shares, default=_ASSUMED_MIB << 20) >> 20

    def load(
        self, batches: Sequence[Batch], folder: Place, progress: Progress
    ) -> Iterator[Batched]:
        """Yield batches as they are done. One whose worker is lost is loaded again on another.

        Raises InputError if its workers are lost again and again.
        """
        from distributed import as_completed

        self.client.subscribe_topic(_TOPIC, lambda event: _relay(event, progress))
        try:
            with self._submitted(_load, [(_absolute(batch), folder) for batch in batches]) as tasks:
                for future in as_completed(tasks):
                    yield future.result()
                    future.release()
        finally:
            with suppress(Exception):  # a cluster that is gone
                self.client.unsubscribe_topic(_TOPIC)

    def in_order(
        self, function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[Result]:
        """Yield what a function returns for each of some arguments, in their order.

        Raises what the function raises, and InputError if workers are lost again and again.
        """
        with self._submitted(function, tasks) as futures:
            for future in futures:
                yield future.result()
                future.release()

    @contextmanager
    def _submitted(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[list[Future]]:
        from distributed.scheduler import KilledWorker

        futures: list[Future] = []
        try:
            futures += [self.client.submit(function, *task, pure=False) for task in tasks]
            yield futures
        except KilledWorker as error:
            raise InputError(
                "a batch of ranks has lost one worker after the other; give workers more memory"
            ) from error
        finally:
            with suppress(Exception):  # a cluster that is gone has nothing left to cancel
                self.client.cancel(futures, force=True)


@contextmanager
def workers(where: str, jobs: int, scratch: Path) -> Iterator[Workers]:
    """Yield the workers of a cluster: 'local' for `jobs` processes on this machine, the address of
    a scheduler, its file, or 'auto'. Raises UsageError.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--dask needs Dask: pip install 'traceweave-ranks[dask]'") from error
    where = os.environ.get(_ADDRESS_VARIABLE, LOCAL) if where == AUTO else where
    if where == LOCAL:
        with _undisturbed():
            cluster = _local(jobs, scratch)
        with cluster, Client(cluster) as client:
            yield Workers(client)
        return
    given = {"scheduler_file": where} if os.path.isfile(where) else {"address": where}
    if "address" in given and "://" not in where:
        raise UsageError(
            f"--dask {where!r}: neither 'local' nor the address of a scheduler (tcp://HOST:8786)"
            " nor a scheduler file"
        )
    try:
        client = Client(**given, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise UsageError(f"--dask {where}: no scheduler answers there") from error
    with client:
        client.wait_for_workers(1)
        yield Workers(client)


def _local(jobs: int, scratch: Path) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        processes=True,
        memory_limit=(draft_memory_mib(1) + _BESIDE_DUCKDB_MIB) << 20,
        local_directory=str(scratch / "workers"),
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep Ctrl-C from a cluster that is starting, until it can be closed; its processes, which a
    terminal interrupts too, never see it.
    """
    # where it starts it unblocks the signal again: not in the thread that starts the processes
    resource_tracker.ensure_running()
    with held_back():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # processes inherit it
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _load(batch: Batch, folder: Place) -> Batched:
    """Load a batch, on a worker."""
    from distributed import get_worker

    worker: Any = get_worker()
    with tempfile.TemporaryDirectory(dir=worker.local_directory) as scratch:
        return load_batch(batch, folder, Path(scratch), 1, _Told(worker), memory_mib())


def memory_mib() -> int | None:
    """Return how much memory DuckDB may take for a task, on the worker that runs it; None: all."""
    from distributed import get_worker

    worker: Any = get_worker()
    limit = worker.memory_manager.memory_limit
    return int(limit * _DUCKDB_SHARE / worker.state.nthreads) >> 20 if limit else None


def _absolute(batch: Batch) -> Batch:
    """Return the batch for a worker, whose current folder is another one."""
    return replace(
        batch,
        sources={
            number: replace(source, read_from=source.read_from.absolute())
            for number, source in batch.sources.items()
        },
    )


@dataclass(frozen=True)
class _Told(Silent):
    """Progress on a worker: sent to whoever has asked for the batch."""

    worker: Any

    def advance(self, path: Path, bytes_read: int) -> None:
        self.worker.log_event(_TOPIC, ("advance", str(path), bytes_read))

    def finish(self, path: Path, status: str) -> None:
        self.worker.log_event(_TOPIC, ("finish", str(path), status))


def _relay(event: tuple[float, tuple[str, str, Any]], progress: Progress) -> None:
    _, (what, path, value) = event
    if what == "advance":
        progress.advance(Path(path), value)
    else:
        progress.finish(Path(path), value)
