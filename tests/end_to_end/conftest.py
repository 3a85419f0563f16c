"""Whole runs, ingested once per test session the way a user would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traceweave
from traceweave.api import Run


@pytest.fixture(scope="session")
def ingested(database_of: Callable[..., Path]) -> Iterator[Callable[[Path], Run]]:
    """Return a function that opens the database of a folder, ingesting it the first time.

    It stays open: what one test has asked, the others need not compute.
    """
    opened: dict[Path, Run] = {}

    def run(folder: Path) -> Run:
        if folder not in opened:
            opened[folder] = traceweave.open(database_of(folder))
        return opened[folder]

    yield run
    for each in opened.values():
        each.close()


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for exports that have to be unpacked."""
    return tmp_path_factory.mktemp("unpacked")
