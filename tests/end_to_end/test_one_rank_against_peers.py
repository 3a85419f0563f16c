"""Our numbers of one rank beside those of other tools on the same files.

`nsys stats` 2023.4 on Nsight Systems exports: equal to the nanosecond. HolisticTraceAnalysis 0.5.0
on Kineto traces of whole microseconds: equal. What Kineto itself projects on the GPU: equal up to
what it adds to each end.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from traceweave.api import Run

Ingested = Callable[[Path], Run]
Rows = list[dict[str, Any]]

NSYS = [
    "ddp_4gpu_baseline__nersc",
    "fsdp_2rank_before__2026.2",
    "jacobi__2023.4",
    "perlmutter_cloverleaf_mpi__2024.5",
    "perlmutter_saxpy_mpi__2022.2",
    "power_iteration__2025.3",
]
SUFFIXES = r"(?s), (seq|op_id|sizes|input_op_ids) = .*$"
DIRECTIONS = {"Host-to-Device": "HtoD", "Device-to-Host": "DtoH", "Device-to-Device": "DtoD"}


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that unpacks a .gz, once."""
    known: dict[Path, Path] = {}

    def unpack(path: Path) -> Path:
        if path not in known:
            known[path] = tmp_path_factory.mktemp("unpacked") / path.stem
            with gzip.open(path) as packed, known[path].open("wb") as plain:
                shutil.copyfileobj(packed, plain)
        return known[path]

    return unpack


@pytest.fixture
def nsys(
    ingested: Ingested, unpacked: Callable[[Path], Path], corpus: Path
) -> Callable[[str], Run]:
    """Return a function that opens the run of one export."""

    def open_run(name: str) -> Run:
        path = corpus / "nsys" / f"{name}.sqlite"
        return ingested(path if path.exists() else unpacked(path.with_suffix(".sqlite.gz")))

    return open_run


def stats(expected: Path, name: str, report: str) -> list[dict[str, str]]:
    path = expected / "nsys_stats" / f"{name}.{report}.csv"
    if not path.exists():
        pytest.skip(f"nsys stats has no {report} for {name}")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def answer(run: Run, analysis: str, **params: object) -> Rows:
    # objects keep NULL apart and integers exact
    table = run.analyze(analysis, **params).astype(object)
    rows: Rows = table.where(table.notna(), None).to_dict("records")
    return rows


@pytest.mark.parametrize("name", NSYS)
def test_kernels_are_those_of_nsys_stats(
    nsys: Callable[[str], Run], expected: Path, name: str
) -> None:
    columns = ("Total Time (ns)", "Instances", "Min (ns)", "Max (ns)")
    theirs = {
        row["Name"]: tuple(int(row[column]) for column in columns)
        for row in stats(expected, name, "cuda_gpu_kern_sum")
    }
    ours = {
        row["kernel"]: (row["total_ns"], row["count"], row["min_ns"], row["max_ns"])
        for row in answer(nsys(name), "kernels")
    }
    assert ours == theirs


@pytest.mark.parametrize("name", NSYS)
def test_copies_are_those_of_nsys_stats(
    nsys: Callable[[str], Run], expected: Path, name: str
) -> None:
    def direction(operation: str) -> str | None:
        found = re.fullmatch(r"\[CUDA memcpy (.*)\]", operation)
        return DIRECTIONS[found[1]] if found else None

    theirs = {
        direction(time["Operation"]): (int(time["Total Time (ns)"]), int(time["Count"]))
        for time in stats(expected, name, "cuda_gpu_mem_time_sum")
    }
    megabytes = {
        direction(size["Operation"]): size["Total (MB)"]
        for size in stats(expected, name, "cuda_gpu_mem_size_sum")
    }
    times: dict[str | None, tuple[int, int]] = {}
    sizes: Counter[str | None] = Counter()
    for row in answer(nsys(name), "copies"):
        time, count = times.get(row["copy_kind"], (0, 0))
        times[row["copy_kind"]] = (time + row["time_ns"], count + row["count"])
        sizes[row["copy_kind"]] += row["bytes"]
    assert times == theirs
    assert {kind: f"{size / 1e6:.3f}" for kind, size in sizes.items()} == megabytes


@pytest.mark.parametrize("name", [name for name in NSYS if "saxpy" not in name])
def test_launches_are_those_of_nsys_stats(
    nsys: Callable[[str], Run], expected: Path, name: str
) -> None:
    exact = {
        "Count": "count",
        "QCount": "queued",
        "TMin (ns)": "total_min_ns",
        "TMax (ns)": "total_max_ns",
        "AMin (ns)": "call_min_ns",
        "AMax (ns)": "call_max_ns",
        "QMin (ns)": "queue_min_ns",
        "QMax (ns)": "queue_max_ns",
        "KMin (ns)": "op_min_ns",
        "KMax (ns)": "op_max_ns",
    }
    means = {
        "TAvg (ns)": "total_mean_ns",
        "AAvg (ns)": "call_mean_ns",
        "QAvg (ns)": "queue_mean_ns",
        "KAvg (ns)": "op_mean_ns",
    }
    # they cut versions of four digits only
    theirs = [
        (
            (int(row["DevId"]), int(row["TID"]), re.sub(r"_v\d+$", "", row["API Name"])),
            row["Kernel Name"],
            [int(row[column]) if row[column] else None for column in exact],
            [float(row[column]) if row[column] else 0 for column in means],
        )
        for row in stats(expected, name, "cuda_kern_exec_sum")
    ]
    ours = [
        (
            (row["device"], row["tid"], row["call"]),
            row["op"],
            [row[column] for column in exact.values()],
            [row[column] or 0 for column in means.values()],
        )
        for row in answer(nsys(name), "launches", ops="kernels")
    ]
    order = lambda row: (row[0], row[1])  # noqa: E731
    ours, theirs = sorted(ours, key=order), sorted(theirs, key=order)
    assert [row[:3] for row in ours] == [row[:3] for row in theirs]
    for our, their in zip(ours, theirs, strict=True):
        # they round to a tenth
        assert our[3] == pytest.approx(their[3], abs=0.0501, rel=0)


def test_recorded_backtraces_do_not_double_a_launch(
    nsys: Callable[[str], Run], expected: Path
) -> None:
    name = "perlmutter_saxpy_mpi__2022.2"
    [theirs] = stats(expected, name, "cuda_kern_exec_sum")
    [ours] = answer(nsys(name), "launches", ops="kernels")
    assert (int(theirs["Count"]), ours["count"]) == (10, 5)
    assert (float(theirs["KAvg (ns)"]), int(theirs["KMax (ns)"])) == (
        ours["op_mean_ns"],
        ours["op_max_ns"],
    )


@pytest.mark.parametrize("name", NSYS)
def test_synchronizing_calls_are_those_of_nsys_stats(
    nsys: Callable[[str], Run], expected: Path, name: str
) -> None:
    theirs = {
        row["Name"]: (int(row["Num Calls"]), int(row["Total Time (ns)"]))
        for row in stats(expected, name, "cuda_api_sum")
        if row["Name"].endswith("Synchronize")
    }
    ours: dict[str, tuple[int, int]] = {}
    for row in answer(nsys(name), "syncs"):
        if row["call"].endswith("Synchronize"):
            count, total = ours.get(row["call"], (0, 0))
            ours[row["call"]] = (count + row["count"], total + row["total_ns"])
    assert ours == theirs


@pytest.mark.parametrize("name", [*NSYS, "full_schema_2023.4"])
def test_ranges_are_those_of_nsys_stats(
    nsys: Callable[[str], Run], expected: Path, name: str
) -> None:
    theirs: Counter[tuple[str, str]] = Counter()
    for row in stats(expected, name, "nvtx_sum"):
        range_ = re.sub(SUFFIXES, "", row["Range"])
        theirs[range_, "count"] += int(row["Instances"])
        theirs[range_, "host"] += int(row["Total Time (ns)"])
    ours: Counter[tuple[str, str]] = Counter()
    for row in answer(nsys(name), "ranges", kind="nvtx"):
        ours[_in_domain(row), "count"] += row["count"]
        ours[_in_domain(row), "host"] += row["host_total_ns"]
    assert ours == theirs


@pytest.mark.parametrize("name", NSYS)
def test_gpu_spans_of_ranges_are_those_of_nsys_stats(
    nsys: Callable[[str], Run], expected: Path, name: str
) -> None:
    columns = {
        "Range Instances": "with_gpu",
        "Total Range Time (ns)": "with_gpu_host_ns",
        "Total Proj Time (ns)": "gpu_span_total_ns",
        "Total GPU Ops": "launches",
    }
    theirs: Counter[tuple[str, str]] = Counter()
    for row in stats(expected, name, "nvtx_gpu_proj_sum"):
        for their, our in columns.items():
            theirs[re.sub(SUFFIXES, "", row["Range"]), our] += int(row[their])
    ours: Counter[tuple[str, str]] = Counter()
    for row in answer(nsys(name), "ranges", kind="nvtx"):
        if row["with_gpu"]:
            for our in columns.values():
                ours[_in_domain(row), our] += row[our]
    assert ours == theirs


def _in_domain(row: dict[str, Any]) -> str:
    return f"{row['domain']}:{row['range']}" if row["domain"] else str(row["range"])


def hta(expected: Path, name: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((expected / "hta" / f"{name}.json").read_text())
    return answers


WHOLE_MICROSECONDS = ["megatron_tp8", "diff_control", "sampled_2of128"]


@pytest.mark.parametrize("name", WHOLE_MICROSECONDS)
def test_kernel_types_are_those_of_hta(
    ingested: Ingested, corpus: Path, expected: Path, name: str
) -> None:
    theirs = {
        row["kernel_type"].replace("COMPUTATION", "compute").lower(): row["sum"]
        for row in hta(expected, name)["kernel_type_us"]
    }
    ours: Counter[str] = Counter()
    for row in answer(ingested(corpus / "kineto" / name), "kernel_types", window="span"):
        if row["kernel_type"] != "idle":
            ours[row["kernel_type"]] += row["time_ns"]
    assert {kind: ns / 1000 for kind, ns in ours.items()} == theirs


@pytest.mark.parametrize("name", WHOLE_MICROSECONDS)
def test_idle_streams_are_those_of_hta(
    ingested: Ingested, corpus: Path, expected: Path, name: str
) -> None:
    theirs = {
        (row["rank"], row["stream"], row["idle_category"]): row["idle_time"]
        for row in hta(expected, name)["idle_breakdown_us"]
        if row["idle_time"] > 0
    }
    rows = answer(ingested(corpus / "kineto" / name), "idle_streams")
    # they number the files
    number = {rank: index for index, rank in enumerate(sorted({row["rank"] for row in rows}))}
    known = {key[0] for key in theirs}
    ours = {
        (number[row["rank"]], row["stream"], category): row[f"{category}_ns"] / 1000
        for row in rows
        for category in ("host_wait", "kernel_wait", "other")
        if row[f"{category}_ns"] > 0 and number[row["rank"]] in known
    }
    assert ours == theirs


@pytest.mark.parametrize("name", ["hta_pair_nccl2", "ns_resolution"])
def test_the_fastest_copy_is_that_of_hta(
    ingested: Ingested, corpus: Path, expected: Path, name: str
) -> None:
    theirs = {
        row["('name', '')"].split()[-1]: row["('memory_bw_gbps', 'max')"]
        for row in hta(expected, name)["memory_bw"]
    }
    ours = {
        row["copy_kind"] or "Memset": row["rate_max_gbps"]
        for row in answer(ingested(corpus / "kineto" / name), "copies")
    }
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_launches_are_those_of_hta(ingested: Ingested, corpus: Path) -> None:
    """What get_cuda_kernel_launch_stats of HTA 0.5.0 says of rank 0, which knows four calls."""
    sums = dict.fromkeys(
        ("count", "call_total_ns", "op_total_ns", "queue_total_ns"), 0
    ) | dict.fromkeys(("slow_calls", "late_ops", "short_ops"), 0)
    four = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}
    for row in answer(ingested(corpus / "kineto" / "megatron_tp8"), "launches"):
        if row["rank"] == 0 and row["call"] in four:
            for column in sums:
                sums[column] += row[column]
    assert sums == {
        "count": 657,
        "call_total_ns": 33_856_000,
        "op_total_ns": 361_935_000,
        "queue_total_ns": 2_606_836_000,
        "slow_calls": 4,
        "late_ops": 510,
        "short_ops": 120,
    }


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("megatron_tp8", {7: (693, 34), 24: (84, 4)}),
        ("hta_pair_nccl2", {7: (3753, 10), 40: (21, 1)}),
    ],
)
def test_queues_are_as_long_as_hta_says(
    ingested: Ingested, corpus: Path, name: str, want: dict[int, tuple[int, int]]
) -> None:
    """What get_queue_length_summary of HTA 0.5.0 says of rank 0: the longest queue per stream.

    Of the second trace it leaves out the last step, hence the launches; the longest stays.
    """
    rows = answer(ingested(corpus / "kineto" / name), "queue_depth")
    ours = {row["stream"]: (row["launches"], row["depth_max"]) for row in rows if row["rank"] == 0}
    assert ours == want


@pytest.mark.parametrize(
    ("name", "added_ns"),
    [
        ("hta_pair_nccl2", 1500),
        ("ns_resolution", 2),
        ("ep_moe_b200_seq", 2),
    ],
)
def test_gpu_spans_of_annotations_are_those_of_kineto(
    ingested: Ingested, corpus: Path, name: str, added_ns: int
) -> None:
    """Kineto writes its own projection as gpu_user_annotation events.

    One per stream: what launched on several streams (nanogpt_8xh100) cannot be compared.
    """
    run = ingested(corpus / "kineto" / name)
    theirs = run.sql(
        "SELECT rank, name, count(*) AS n, sum(duration_ns) AS ns FROM other_events"
        " WHERE category = 'gpu_user_annotation' GROUP BY ALL"
    )
    ours = {(row["rank"], row["range"]): row for row in answer(run, "ranges", kind="annotation")}
    compared = 0
    for rank, range_, count, total in theirs.itertuples(index=False):
        row = ours[rank, range_]
        if row["with_gpu"] == count:
            compared += 1
            assert 0 <= total - row["gpu_span_total_ns"] <= added_ns * count
    assert compared >= 2
