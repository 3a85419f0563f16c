"""The idle time of a GPU, host's and device's part, against a plain reading of the JSON."""

import gzip
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import at_once, nightly

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime"}
TRACES = ("megatron_tp2", "megatron_tp8", "torchrec_4", "hta_pair_nccl2", "negative_queue_1of16",
          "diff_control", "ep_moe_b200_seq")  # fmt: skip


def split(path: Path) -> tuple[int, int, int]:
    """Return how long nothing ran, ns: until launches returned, after that, launch not recorded.

    Calls are numbered in the order in which they are made: a number below all that launched
    something was given before the first of these."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X"]
    calls: dict[Any, dict[str, Any]] = {}
    for event in spans:
        # the first call with a correlation id is the launch
        if event.get("cat", "").lower() in CALLS and _correlation(event) is not None:
            calls.setdefault(_correlation(event), event)
    ops = [event for event in spans if event.get("cat", "").lower() in DEVICE]
    ops.sort(key=_start)  # of those that start together the first in the file ends the gap
    numbers = {_correlation(op) for op in ops} - {None}
    first = min((number for number in numbers if number in calls), default=0)
    host = device = unknown = 0
    until = _end(ops[0])
    for op in ops[1:]:
        start = _start(op)
        if start > until:
            number = _correlation(op)
            known = number in calls
            early = not known and number is not None and number < first
            launched = _end(calls[number]) if known else _start(calls[first]) if early else start
            cut = min(max(launched, until), start)
            host, device = host + (cut - until) * known, device + start - cut
            unknown += (cut - until) * (not known)
        until = max(until, _end(op))
    return host, device, unknown


def _correlation(event: dict[str, Any]) -> Any:
    return (event.get("args") or {}).get("correlation") or None


def _start(event: dict[str, Any]) -> int:
    return int(Decimal(event["ts"]) * 1000)


def _end(event: dict[str, Any]) -> int:
    return _start(event) + int(Decimal(event["dur"]) * 1000)


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.json.gz"))


@nightly
@pytest.mark.parametrize("name", at_once(TRACES, "megatron_tp2"))
def test_idle_time_is_cut_where_launches_return(
    corpus: Path, database_of: Callable[..., Path], name: str
) -> None:
    folder = corpus / "kineto" / name
    want = sorted(split(path) for path in _files(folder))
    with traceweave.open(database_of(folder)) as run:
        got = run.sql(
            "SELECT rank, arg_min(path, s.source_id) AS path FROM ranks JOIN sources AS s"
            " USING (source_id) GROUP BY rank"
        )
        assert len(got) == len(want)
        gaps = run.gaps(window="span", min_gap_ns=1)
    device = gaps["cause"].isin(["dependency", "kernel_delay", "device_delay", "began_before"])
    unknown = gaps["cause"] == "unknown"
    sums = gaps.assign(
        host=gaps["duration_ns"].where(~device & ~unknown, 0),
        device_part=gaps["duration_ns"].where(device, 0),
        not_known=gaps["duration_ns"].where(unknown, 0),
    ).groupby("rank")[["host", "device_part", "not_known"]]
    assert sorted(map(tuple, sums.sum().to_numpy().tolist())) == want
