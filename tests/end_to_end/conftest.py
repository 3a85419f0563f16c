from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for exports that have to be unpacked."""
    return tmp_path_factory.mktemp("unpacked")
