"""A simulated run, its traces and its folder, which several modules ask."""

from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.simulated_runs import SLOW_GPU
from traceweave.ingestion import batches
from traceweave_simulator import simulate, write_kineto

MakeOnce = Callable[[str, str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def traces(once: MakeOnce) -> Path:
    """Kineto traces of four simulated ranks, one of them slow."""
    return once(
        "traces of SLOW_GPU", ".traces", lambda path: write_kineto(simulate(SLOW_GPU), path)
    )


@pytest.fixture(scope="session")
def folder(once: MakeOnce, traces: Path) -> Path:
    """The run in two batches of two ranks, to which nobody may write."""

    def write(path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches, "MOST_RANKS", 2)
            assert traceweave.ingest(traces, path).ok

    return once("folder of SLOW_GPU", ".tw", write)
