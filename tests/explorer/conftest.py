"""A run that the explorer's tests look at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.explorer.serving import serving
from traceweave.explorer.explorer import Explorer, explore
from traceweave.explorer.server import Server
from traceweave_simulator import Config


@pytest.fixture(scope="session")
def gpu_run(simulated_database: Callable[[Config], Path]) -> Path:
    """Four ranks and five steps, whose clocks differ."""
    return simulated_database(Config(ranks=4, steps=5))


@pytest.fixture(scope="module")
def explorer(gpu_run: Path) -> Iterator[Explorer]:
    """The answers about it, its levels of detail made."""
    with explore(gpu_run) as explorer:
        explorer.levels.wait()
        assert explorer.levels.error is None
        yield explorer


@pytest.fixture(scope="module")
def served(explorer: Explorer) -> Iterator[Server]:
    """A server of that run."""
    with serving(explorer) as server:
        yield server
