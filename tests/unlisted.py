"""Recordings of gloo as older torch wrote them: no list of a rank's groups beside the events."""

from __future__ import annotations

import gzip
import json
from pathlib import Path


def unlisted(folder: Path, target: Path) -> Path:
    """Write recordings into a new folder without the groups that they list."""
    target.mkdir()
    for path in folder.glob("rank*.json.gz"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        del trace["distributedInfo"]["pg_config"]
        (target / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    return target
