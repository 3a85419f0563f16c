"""NCCL Inspector's records: read or counted, and beside what the traces say."""

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceweave
from tests.marks import nightly
from tests.nccl_lines import HASH, Writer
from traceweave.sources.nccl_inspector import read, recognize


def record(place: int = 0, size: int = 8, pid: int = 75, **performance: Any) -> dict[str, Any]:
    """A record in the form of format 4.0 (NCCL 2.28)."""
    return {
        "header": {"id": HASH, "rank": place, "n_ranks": size, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0", "git_rev": "",
            "rec_mechanism": "nccl_profiler_interface", "dump_timestamp_us": 1748030377748202,
            "hostname": "gpu0.cluster.example", "pid": pid,
        },
        "coll_perf": {
            "coll": "AllReduce", "coll_sn": 7, "coll_msg_size_bytes": 1000,
            "coll_exec_time_us": 50, "coll_timing_source": "kernel_gpu",
            "coll_algobw_gbs": 0.02, "coll_busbw_gbs": 0.035,
        } | performance,
    }  # fmt: skip


def line(content: object) -> bytes:
    return json.dumps(content).encode()


def measured(content: object) -> dict[str, Any]:
    """What a record says of the member and of the operation."""
    found = read(line(content))
    assert not isinstance(found, str)
    member, operation = found
    return operation | {"member": member}


def test_a_record_of_the_first_format() -> None:
    found = measured(record())
    assert found == {
        "name": "AllReduce", "is_p2p": False, "nth": 7, "peer_place": None, "bytes": 1000,
        "duration_ns": 50_000, "timing": "kernel_gpu", "algbw_gbps": 0.02, "busbw_gbps": 0.035,
        "algorithm": None, "protocol": None, "start_local_ns": None, "end_local_ns": None,
        "member": (HASH, None, 0, 8, 1, "gpu0.cluster.example", 75),
    }  # fmt: skip


def test_sizes_of_one_rank_become_those_of_the_operation() -> None:
    assert measured(record(coll="AllGather"))["bytes"] == 8000
    assert measured(record(coll="ReduceScatter"))["bytes"] == 8000
    assert measured(record(coll="Broadcast"))["bytes"] == 1000


def test_newer_formats_say_more() -> None:
    content = record(coll_algo="Ring", coll_proto="ll128")
    content["header"]["comm_name"] = "DP Group 0"
    found = measured(content)
    assert (found["algorithm"], found["protocol"]) == ("RING", "LL128")
    assert found["member"].name == "DP Group 0"
    p2p = record()
    del p2p["coll_perf"]
    p2p["p2p_perf"] = {"p2p": "Send", "p2p_sn": 3, "p2p_peer": 5, "p2p_msg_size_bytes": 512,
                       "p2p_exec_time_us": 9}  # fmt: skip
    found = measured(p2p)
    assert [found[of] for of in ("is_p2p", "peer_place", "bytes", "duration_ns")] == [
        True, 5, 512, 9000
    ]  # fmt: skip


def test_verbose_records_tell_when_their_channels_ran() -> None:
    channels = [
        {"channel_id": 0, "kernel_start_ts": 1_000_100, "kernel_stop_ts": 1_000_200},
        {"channel_id": 1, "kernel_start_ts": 1_000_090, "kernel_stop_ts": 1_000_190},
    ]
    found = measured(record(event_trace_ts={"kernel_events": channels}))
    assert (found["start_local_ns"], found["end_local_ns"]) == (1_000_090_000, 1_000_200_000)
    channels[0]["kernel_stop_ts"] = 0  # it was not noticed
    assert measured(record(event_trace_ts={"kernel_events": channels}))["start_local_ns"] is None


BAD = {
    "cut off": (line(record())[:-30], "record damaged"),
    "no object": (b"[1, 2]", "record damaged"),
    "invalid UTF-8": (line(record()).replace(b"gpu0", b"\xff\xfe"), "record damaged"),
    "no time": (line(record(coll_exec_time_us=None)), "record damaged"),
    "a place outside": (line(record(place=9)), "record damaged"),
    "huge": (line(record(coll_exec_time_us=10**30)), "record damaged"),
    "statistics": (
        line({"header": {}, "metadata": {}, "dump_stats": {}}),
        "record of another kind",
    ),
}


def test_every_line_is_stored_or_counted(tmp_path: Path) -> None:
    assert {name: read(bad) for name, (bad, _) in BAD.items()} == {
        name: why for name, (_, why) in BAD.items()
    }
    good = line(record()) + b"\r\n"
    data = good * 3 + b"\n" + b"".join(bad + b"\n" for bad, _ in BAD.values()) + good[:200]
    (tmp_path / "node0-pid75.log").write_bytes(data)
    traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        [row] = con.execute(
            "SELECT format, producer_version, events_read, events_stored FROM sources"
        ).fetchall()
        assert row == ("nccl_inspector", "4.0", 11, 3)
        issues = con.execute(
            "SELECT kind, count FROM ingest_issues WHERE source_id = 0 ORDER BY kind"
        ).fetchall()
        assert issues == [("record damaged", 7), ("record of another kind", 1)]


def test_files_are_found_by_content(tmp_path: Path) -> None:
    assert recognize(tmp_path / "x", line(record()) + b"\n")
    assert not recognize(tmp_path / "x", b'{"traceEvents": []}')
    assert not recognize(
        tmp_path / "x", b'{"header": 1}\n{"inspector_output_format_version": "v4"}'
    )


@nightly
def test_inspector_stands_beside_the_traces(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in (0, 5):
        [trace] = (corpus / "kineto" / "nanogpt_8xh100").glob(f"*rank{rank}*")
        shutil.copy(trace, folder)
    first = tmp_path / "first.duckdb"
    traceweave.ingest(folder, first)
    with duckdb.connect(str(first), read_only=True) as con:
        calls = con.execute(
            "SELECT rank, bytes, start_local_ns, duration_ns FROM collectives"
            " WHERE op = 'all_gather' AND bytes = 77266944 ORDER BY rank, start_local_ns"
        ).fetchall()
    # what Inspector would say: the same kernels, noticed by the host 3 us late, 2 us longer
    text = b""
    for rank, bytes_, start, length in calls:
        us = start // 1000 + 3
        times = {"kernel_start_ts": us, "kernel_stop_ts": us + length // 1000}
        text += line(
            record(
                rank, 8, 75 + rank, coll="AllGather", coll_msg_size_bytes=bytes_ // 8,
                coll_exec_time_us=length // 1000 + 2,
                event_trace_ts={"kernel_events": [{"channel_id": 0, **times}]},
            )
        ) + b"\n"  # fmt: skip
    (folder / "inspector.log").write_bytes(text)
    logs = "".join(Writer(75 + i, "gpu0", i).made(f"0x{i + 1:x}", i, 8) for i in range(8))
    (folder / "nccl.log").write_text(logs)
    traceweave.ingest(folder, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        # the log and Inspector speak of one communicator
        [(ranks, name)] = run.con.execute("SELECT ranks, network FROM communicators").fetchall()
        assert (ranks, name) == (list(range(8)), None)
        [row] = run.inspector().to_dict("records")
        assert (row["op"], row["group_id"], row["bytes"]) == ("all_gather", 0, 77_266_944)
        assert row["records"] == row["calls"] == len(calls)
        # not those that touch two: these gathers follow each other within microseconds
        assert len(calls) / 2 < row["joined"] < len(calls)
        assert 1000 <= row["joined_difference_p50_ns"] <= 2000  # whole us were cut off
        assert row["ratio"] == pytest.approx(1, abs=0.05)
        assert row["instances"] == 0  # only two of eight ranks are here
        found = run.con.execute(
            "SELECT DISTINCT i.rank = k.rank AND i.bytes = k.bytes FROM nccl_inspected AS i"
            " JOIN collectives AS k USING (call_id)"
        ).fetchall()
        assert found == [(True,)]
