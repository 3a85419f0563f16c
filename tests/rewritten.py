"""Recordings with something else in what they say beside their events."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def rewritten(folder: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write recordings into a new folder, each changed at its top level."""
    target.mkdir()
    for path in folder.glob("rank*.json.gz"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        change(trace)
        (target / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    return target


def unlisted(folder: Path, target: Path) -> Path:
    """Write recordings of gloo as older torch did: without the list of a rank's groups."""

    def change(trace: dict[str, Any]) -> None:
        del trace["distributedInfo"]["pg_config"]

    return rewritten(folder, target, change)
