"""Dumps of torch's flight recorder, made by hand."""

import json
import pickle
from pathlib import Path
from typing import Any

NOW = 1_758_610_505_000_000_000


def entry(**changed: Any) -> dict[str, Any]:
    return {
        "record_id": 7, "pg_id": 1, "process_group": ("3", "mesh_tp"), "collective_seq_id": 5,
        "p2p_seq_id": 0, "op_id": 5, "profiling_name": "nccl:all_reduce", "time_created_ns": NOW,
        "input_sizes": [[4, 2]], "input_dtypes": ["Float"], "output_sizes": [[4, 2]],
        "output_dtypes": ["Float"], "state": "scheduled", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 600_000,
        "is_p2p": False,
    } | changed  # fmt: skip


def dump(*entries: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {"3": {"name": "3", "desc": "mesh_tp", "ranks": "[0, 1]"}},
        "pg_status": {"1": {"last_enqueued_collective": 5, "last_started_collective": -1,
                            "last_completed_collective": 4}},
        "entries": list(entries),
    } | changed  # fmt: skip


def written(path: Path, content: object) -> Path:
    data = json.dumps(content).encode() if path.suffix == ".json" else pickle.dumps(content, 2)
    path.write_bytes(data)
    return path
