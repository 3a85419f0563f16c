"""A made-up trace format, small enough to write in a test."""

import gzip
import json
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection as Connection

from traceweave.sources.model import OP_IDS_PER_SOURCE, Issue, Loaded, Process, Report, Trace

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


class Tiny:
    """A format of one JSON object under the key "tiny".

    processes: as in model.Process; at: [first, last] in seconds as a probe sees it, or null; ops:
    [start, length] in ns; fails: load raises this after writing; odd, damaged: as Loaded has them.
    """

    def recognize(self, path: Path, head: bytes) -> bool:
        return head.startswith(b'{"tiny"')

    def probe(self, path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
        said = read(path)
        processes = tuple(Process(key=i, **p) for i, p in enumerate(said.get("processes", [{}])))
        first, last = said["at"] or (None, None)
        return Trace(
            path, "tiny", path.stat().st_size, processes,
            first_ns=None if first is None else START + first * SECOND,
            last_ns=None if last is None else START + last * SECOND,
        )  # fmt: skip

    def load(self, con: Connection, trace: Trace, source_id: int, report: Report) -> Loaded:
        said = read(trace.path)
        ops = said.get("ops", [[0, 1]])
        process = trace.processes[0]
        con.begin()
        con.executemany(
            "INSERT INTO base.host_ops BY NAME SELECT ? AS rank, ? AS op_id, ? AS source_id,"
            " 'op' AS kind, 'aten::add' AS name, ? AS start_local_ns, ? AS duration_ns",
            [
                [process.rank, source_id * OP_IDS_PER_SOURCE + i, source_id, START + at, length]
                for i, (at, length) in enumerate(ops)
            ],
        )
        con.execute(
            "INSERT INTO base.rank_sources BY NAME SELECT ? AS rank, ? AS source_id,"
            " ? AS rank_source, ? AS pid, 'tiny' AS format,"
            " ? AS first_local_ns, ? AS last_local_ns",
            [
                process.rank, source_id, process.rank_source or "trace", process.pid,
                START + min(at for at, _ in ops), START + max(at + length for at, length in ops),
            ],
        )  # fmt: skip
        report(trace.path.stat().st_size // 2)
        if "fails" in said:
            raise LookupError(said["fails"])
        con.commit()
        report(trace.path.stat().st_size - trace.path.stat().st_size // 2)
        lost = [Issue("odd", 1, "an odd event", "its name")] if said.get("odd") else []
        return Loaded(len(ops) + len(lost), len(ops), lost, said.get("damaged"))


def read(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    said: dict[str, Any] = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)[
        "tiny"
    ]
    return said


def write(path: Path, at: tuple[int, int] | None = (0, 1), **process: object) -> Path:
    return write_report(path, [process], at)


def write_report(
    path: Path,
    processes: list[dict[str, object]],
    at: tuple[int, int] | None = (0, 1),
    **said: object,
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"tiny": {"processes": processes, "at": at, **said}})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
