"""Whole runs, ingested once per test session the way a user would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from traceweave.api import Run


@pytest.fixture(scope="session")
def ingested(database_of: Callable[..., Path]) -> Callable[[Path], Run]:
    """Return a function that opens the database of a folder, ingesting it the first time."""
    return lambda folder: traceweave.open(database_of(folder))


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for exports that have to be unpacked."""
    return tmp_path_factory.mktemp("unpacked")
