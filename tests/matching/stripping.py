"""Real traces without what tells process groups, as older profilers write them."""

import gzip
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import orjson

NCCL_KEYS = {
    "Collective name", "Process Group Name", "Process Group Description", "Process Group Ranks",
    "Group size", "Seq", "dtype", "In msg nelems", "Out msg nelems", "In msg size", "Out msg size",
    "In split size", "Out split size", "Global rank start", "Global rank stride", "Rank",
    "Src Rank", "Dst Rank",
}  # fmt: skip


def strip_kineto(source: Path, target: Path) -> int:
    """Copy a Kineto trace without the arguments that NCCL's operations have, the events that are
    there for them alone, and the job's list of groups; return how many events lost something."""
    packed = source.read_bytes()
    trace = orjson.loads(gzip.decompress(packed) if source.suffix == ".gz" else packed)
    trace.get("distributedInfo", {}).pop("pg_config", None)
    events = trace["traceEvents"]
    kept = [event for event in events if event.get("name") != "record_param_comms"]
    stripped = sum(map(_strip, kept))
    trace["traceEvents"] = kept
    target.write_bytes(orjson.dumps(trace))
    return stripped + len(events) - len(kept)


def _strip(event: dict[str, Any]) -> bool:
    labels = NCCL_KEYS & event.get("args", {}).keys()
    for label in labels:
        del event["args"][label]
    return bool(labels)


def strip_nsys(source: Path, target: Path) -> int:
    """Copy an nsys export without NCCL's ranges; return how many there were."""
    shutil.copyfile(source, target)
    with sqlite3.connect(target) as con:
        return con.execute(
            "DELETE FROM NVTX_EVENTS WHERE text LIKE 'nccl%'"
            " OR textId IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%')"
        ).rowcount
