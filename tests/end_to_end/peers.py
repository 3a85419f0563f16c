"""The answers of other tools beside ours, for the same files.

Every comparison returns two mappings from what is measured to a number: ours and theirs. The tests
hold them against each other, and `python -m tests.end_to_end.peers CORPUS EXPECTED` prints the
table of docs/trust.md. `CORPUS` holds the traces, `EXPECTED` what HolisticTraceAnalysis 0.5.0
(`hta/NAME.json`) and `nsys stats` 2023.4 (`nsys_stats/NAME.REPORT.csv`) say of them."""

import csv
import gzip
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import traceweave
from traceweave.api import Run

Row: TypeAlias = dict[str, Any]
Answers: TypeAlias = dict[tuple[Any, ...], float]
Pair: TypeAlias = tuple[Answers, Answers]

EXPORTS = (
    "ddp_4gpu_baseline__nersc", "fsdp_2rank_before__2026.2", "jacobi__2023.4",
    "perlmutter_cloverleaf_mpi__2024.5", "perlmutter_saxpy_mpi__2022.2", "power_iteration__2025.3",
)  # fmt: skip
WITHOUT_SAXPY = tuple(name for name in EXPORTS if "saxpy" not in name)
WHOLE_MICROSECONDS = ("megatron_tp8", "diff_control", "sampled_2of128")
FRACTIONS = ("hta_pair_nccl2", "ns_resolution", "amd_mi250")


@dataclass(frozen=True)
class Comparison:
    """One answer of ours with the same answer of a peer, on the traces that both can read."""

    analysis: str
    peer: str
    traces: tuple[str, ...]
    compare: Callable[[Run, Path, str], Pair]
    allowed: float = 0.0
    """Largest difference of a number that the peer's rounding explains."""
    per_op: bool = False
    """`allowed` holds per GPU op of the trace."""
    remark: str = ""


def limit(comparison: Comparison, run: Run) -> float:
    """Return the largest difference that the peer's rounding explains."""
    ops = run.sql("SELECT count(*) AS n FROM gpu_ops")["n"][0] if comparison.per_op else 1
    return comparison.allowed * float(ops)


def rows(run: Run, analysis: str, **params: object) -> Iterator[Row]:
    """Yield the rows of an analysis with NULL as None and integers exact."""
    table = run.analyze(analysis, **params).astype(object)
    yield from table.where(table.notna(), None).to_dict("records")


def hta_answers(expected: Path, name: str) -> dict[str, Any]:
    """Return what HTA says of a trace, by its analysis."""
    answers: dict[str, Any] = json.loads((expected / "hta" / f"{name}.json").read_text())
    return answers


def nsys_answers(expected: Path, name: str, report: str) -> list[dict[str, str]]:
    """Return the rows of one report of `nsys stats`; none where it had nothing to say."""
    path = expected / "nsys_stats" / f"{name}.{report}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def breakdown(run: Run, expected: Path, name: str) -> Pair:
    """Compute, exposed communication and copies, idle, window: us per rank."""
    keys = ("compute_time(us)", "non_compute_time(us)", "idle_time(us)", "kernel_time(us)")
    theirs = {
        (number, key): row[key]
        for number, row in enumerate(hta_answers(expected, name)["temporal_breakdown_us"])
        for key in keys
    }
    ours: Answers = {}
    for number, row in enumerate(rows(run, "breakdown", window="span")):
        exposed = row["exposed_comm_ns"] + row["exposed_memory_ns"]
        parts = (row["compute_ns"], exposed, row["idle_ns"], row["window_ns"])
        ours |= {(number, key): ns / 1000 for key, ns in zip(keys, parts, strict=True)}
    return ours, theirs


def overlap(run: Run, expected: Path, name: str) -> Pair:
    """Share of communication that compute hides: percent per rank."""
    theirs = hta_answers(expected, name)["comm_comp_overlap_pct"]
    hidden = (row["comm_hidden_fraction"] for row in rows(run, "breakdown", window="span"))
    return (
        {(number,): fraction * 100 for number, fraction in enumerate(hidden)},
        {(number,): row["comp_comm_overlap_pctg"] for number, row in enumerate(theirs)},
    )


def kernel_types(run: Run, expected: Path, name: str) -> Pair:
    """Time per kernel type and per overlap of types, summed over ranks: us."""
    theirs = {
        (row["kernel_type"].replace("COMPUTATION", "compute").lower(),): row["sum"]
        for row in hta_answers(expected, name)["kernel_type_us"]
    }
    ours: Counter[tuple[Any, ...]] = Counter()
    for row in rows(run, "kernel_types", window="span"):
        if row["kernel_type"] != "idle":
            ours[row["kernel_type"],] += row["time_ns"]
    return {key: ns / 1000 for key, ns in ours.items()}, theirs


def idle_streams(run: Run, expected: Path, name: str) -> Pair:
    """Idle time per rank, stream and cause: us."""
    theirs = {
        (row["rank"], row["stream"], row["idle_category"]): row["idle_time"]
        for row in hta_answers(expected, name)["idle_breakdown_us"]
        if row["idle_time"] > 0
    }
    mine = list(rows(run, "idle_streams"))
    # they number the files
    number = {rank: index for index, rank in enumerate(sorted({row["rank"] for row in mine}))}
    known = {key[0] for key in theirs}
    ours: Answers = {
        (number[row["rank"]], row["stream"], cause): row[f"{cause}_ns"] / 1000
        for row in mine
        for cause in ("host_wait", "kernel_wait", "other")
        if row[f"{cause}_ns"] > 0 and number[row["rank"]] in known
    }
    return ours, theirs


def copy_rates(run: Run, expected: Path, name: str) -> Pair:
    """Rate of the fastest copy of every kind: GB/s."""
    theirs = {
        (row["('name', '')"].split()[-1],): row["('memory_bw_gbps', 'max')"]
        for row in hta_answers(expected, name)["memory_bw"]
    }
    ours = {(row["copy_kind"] or "Memset",): row["rate_max_gbps"] for row in rows(run, "copies")}
    return ours, theirs


def kernels(run: Run, expected: Path, name: str) -> Pair:
    """Total, count, shortest and longest of every kernel: ns."""
    columns = {
        "Total Time (ns)": "total_ns", "Instances": "count", "Min (ns)": "min_ns",
        "Max (ns)": "max_ns",
    }  # fmt: skip
    theirs = {
        (row["Name"], mine): int(row[column])
        for row in nsys_answers(expected, name, "cuda_gpu_kern_sum")
        for column, mine in columns.items()
    }
    ours = {
        (row["kernel"], mine): row[mine]
        for row in rows(run, "kernels")
        for mine in columns.values()
    }
    return ours, theirs


def copies(run: Run, expected: Path, name: str) -> Pair:
    """Time and number of copies per direction: ns."""
    theirs: Answers = {}
    for row in nsys_answers(expected, name, "cuda_gpu_mem_time_sum"):
        theirs[_direction(row["Operation"]), "time"] = int(row["Total Time (ns)"])
        theirs[_direction(row["Operation"]), "count"] = int(row["Count"])
    ours: Counter[tuple[Any, ...]] = Counter()
    for mine in rows(run, "copies"):
        ours[mine["copy_kind"], "time"] += mine["time_ns"]
        ours[mine["copy_kind"], "count"] += mine["count"]
    return dict(ours), theirs


def copy_sizes(run: Run, expected: Path, name: str) -> Pair:
    """Copied volume per direction: MB."""
    theirs = {
        (_direction(row["Operation"]),): float(row["Total (MB)"])
        for row in nsys_answers(expected, name, "cuda_gpu_mem_size_sum")
    }
    ours: Counter[tuple[Any, ...]] = Counter()
    for mine in rows(run, "copies"):
        ours[mine["copy_kind"],] += mine["bytes"]
    return {key: size / 1e6 for key, size in ours.items()}, theirs


def _direction(operation: str) -> str | None:
    known = {"Host-to-Device": "HtoD", "Device-to-Host": "DtoH", "Device-to-Device": "DtoD"}
    found = re.fullmatch(r"\[CUDA memcpy (.*)\]", operation)
    return known[found[1]] if found else None


LAUNCH_COLUMNS = {
    "Count": "count", "QCount": "queued", "TAvg (ns)": "total_mean_ns", "TMin (ns)": "total_min_ns",
    "TMax (ns)": "total_max_ns", "AAvg (ns)": "call_mean_ns", "AMin (ns)": "call_min_ns",
    "AMax (ns)": "call_max_ns", "QAvg (ns)": "queue_mean_ns", "QMin (ns)": "queue_min_ns",
    "QMax (ns)": "queue_max_ns", "KAvg (ns)": "op_mean_ns", "KMin (ns)": "op_min_ns",
    "KMax (ns)": "op_max_ns",
}  # fmt: skip


def launches(run: Run, expected: Path, name: str) -> Pair:
    """Call, queue and kernel time of every launching call and kernel: ns."""
    theirs = {
        # they cut versions of four digits only
        (
            row["DevId"], row["TID"], re.sub(r"_v\d+$", "", row["API Name"]), row["Kernel Name"],
            mine,
        ): float(row[column] or 0)
        for row in nsys_answers(expected, name, "cuda_kern_exec_sum")
        for column, mine in LAUNCH_COLUMNS.items()
    }  # fmt: skip
    ours = {
        (str(row["device"]), str(row["tid"]), row["call"], row["op"], mine): row[mine] or 0
        for row in rows(run, "launches", ops="kernels")
        for mine in LAUNCH_COLUMNS.values()
    }
    return ours, theirs


def syncs(run: Run, expected: Path, name: str) -> Pair:
    """Number and time of every synchronizing call: ns."""
    theirs: Answers = {}
    for row in nsys_answers(expected, name, "cuda_api_sum"):
        if row["Name"].endswith("Synchronize"):
            theirs[row["Name"], "count"] = int(row["Num Calls"])
            theirs[row["Name"], "time"] = int(row["Total Time (ns)"])
    ours: Counter[tuple[Any, ...]] = Counter()
    for mine in rows(run, "syncs"):
        if mine["call"].endswith("Synchronize"):
            ours[mine["call"], "count"] += mine["count"]
            ours[mine["call"], "time"] += mine["total_ns"]
    return dict(ours), theirs


def ranges(run: Run, expected: Path, name: str) -> Pair:
    """Number and host time of every NVTX range: ns."""
    columns = {"Instances": "count", "Total Time (ns)": "host_total_ns"}
    theirs = _ranges_of_nsys(nsys_answers(expected, name, "nvtx_sum"), columns)
    return _ranges_of_ours(rows(run, "ranges", kind="nvtx"), columns.values()), theirs


def gpu_spans(run: Run, expected: Path, name: str) -> Pair:
    """What every NVTX range launched, projected on the GPU: ns."""
    columns = {
        "Range Instances": "with_gpu", "Total Range Time (ns)": "with_gpu_host_ns",
        "Total Proj Time (ns)": "gpu_span_total_ns", "Total GPU Ops": "launches",
    }  # fmt: skip
    theirs = _ranges_of_nsys(nsys_answers(expected, name, "nvtx_gpu_proj_sum"), columns)
    mine = (row for row in rows(run, "ranges", kind="nvtx") if row["with_gpu"])
    return _ranges_of_ours(mine, columns.values()), theirs


def _ranges_of_nsys(table: list[dict[str, str]], columns: dict[str, str]) -> Answers:
    # the suffixes of torch's emit_nvtx: one range per operator here
    suffixes = r"(?s), (seq|op_id|sizes|input_op_ids) = .*$"
    sums: Counter[tuple[Any, ...]] = Counter()
    for row in table:
        for their, mine in columns.items():
            sums[re.sub(suffixes, "", row["Range"]), mine] += int(row[their])
    return dict(sums)


def _ranges_of_ours(table: Iterable[Row], columns: Iterable[str]) -> Answers:
    columns = tuple(columns)
    sums: Counter[tuple[Any, ...]] = Counter()
    for row in table:
        range_ = f"{row['domain']}:{row['range']}" if row["domain"] else str(row["range"])
        for column in columns:
            sums[range_, column] += row[column]
    return dict(sums)


ROUNDED = "HTA rounds every start up and every end down: its busy time lacks up to 2 us per op"
COMPARISONS = (
    Comparison(
        "breakdown", "HTA get_temporal_breakdown", WHOLE_MICROSECONDS, breakdown,
    ),
    Comparison("breakdown", "HTA get_temporal_breakdown", FRACTIONS, breakdown, 2, True, ROUNDED),
    Comparison(
        "breakdown",
        "HTA get_comm_comp_overlap",
        WHOLE_MICROSECONDS,
        overlap,
        0.0051,
        remark="HTA prints two decimals of a percentage",
    ),
    Comparison(
        "kernel_types", "HTA get_gpu_kernel_breakdown", WHOLE_MICROSECONDS, kernel_types,
    ),
    Comparison(
        "idle_streams", "HTA get_idle_time_breakdown", WHOLE_MICROSECONDS, idle_streams,
    ),
    Comparison(
        "copies",
        "HTA get_memory_bw_summary",
        ("hta_pair_nccl2", "ns_resolution"),
        copy_rates,
        1e-9,
    ),
    Comparison("kernels", "nsys stats cuda_gpu_kern_sum", EXPORTS, kernels),
    Comparison("copies", "nsys stats cuda_gpu_mem_time_sum", WITHOUT_SAXPY, copies),
    Comparison(
        "copies",
        "nsys stats cuda_gpu_mem_size_sum",
        WITHOUT_SAXPY,
        copy_sizes,
        0.00051,
        remark="nsys prints three decimals of a megabyte",
    ),
    Comparison(
        "launches",
        "nsys stats cuda_kern_exec_sum",
        WITHOUT_SAXPY,
        launches,
        0.0501,
        remark="nsys prints one decimal of a mean; it counts launches with a recorded backtrace "
        "twice (perlmutter_saxpy_mpi), which is left out",
    ),
    Comparison("syncs", "nsys stats cuda_api_sum", EXPORTS, syncs),
    Comparison("ranges", "nsys stats nvtx_sum", (*EXPORTS, "full_schema_2023.4"), ranges),
    Comparison("ranges", "nsys stats nvtx_gpu_proj_sum", EXPORTS, gpu_spans),
)  # fmt: skip
"""What has the same definition there and here."""


def trace_of(corpus: Path, name: str, scratch: Path) -> Path:
    """Return the folder or file of a trace, unpacked into `scratch` if need be."""
    kineto = corpus / "kineto" / name
    export = corpus / "nsys" / f"{name}.sqlite"
    if kineto.exists() or export.exists():
        return kineto if kineto.exists() else export
    unpacked = scratch / export.name
    if not unpacked.exists():
        with gzip.open(export.with_suffix(".sqlite.gz")) as packed, unpacked.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    return unpacked


@dataclass(frozen=True)
class Outcome:
    """How far apart two mappings are that should be equal."""

    numbers: int
    equal: int
    missing: int
    """Numbers that only one side has."""
    largest: float
    """Largest difference, in the unit of the comparison."""


def outcome(ours: Answers, theirs: Answers) -> Outcome:
    """Compare number by number; equal means to nine decimals."""
    apart = [abs(ours[key] - theirs[key]) for key in ours.keys() & theirs.keys()]
    return Outcome(
        numbers=len(apart), equal=sum(1 for difference in apart if difference <= 1e-9),
        missing=len(ours.keys() ^ theirs.keys()), largest=max(apart, default=0.0),
    )  # fmt: skip


def main(corpus: Path, expected: Path) -> None:
    """Print one row per comparison: on how many traces, how many numbers, how many equal."""
    print("| analysis | peer | traces | numbers | equal | largest difference | why |")
    print("|---|---|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for comparison in COMPARISONS:
            outcomes = list(_outcomes(comparison, corpus, expected, Path(folder)))
            equal = sum(each.equal for each in outcomes)
            numbers = sum(each.numbers + each.missing for each in outcomes)
            largest = max(each.largest for each in outcomes)
            cells = (
                f"`{comparison.analysis}`", comparison.peer, str(len(outcomes)), f"{numbers:,}",
                f"{equal:,}", f"{largest:.4g}" if equal < numbers else "0",
                comparison.remark if equal < numbers else "",
            )  # fmt: skip
            print(f"| {' | '.join(cells)} |")


def _outcomes(
    comparison: Comparison, corpus: Path, expected: Path, scratch: Path
) -> Iterator[Outcome]:
    for name in comparison.traces:
        database = scratch / f"{name}.duckdb"
        if not database.exists():
            traceweave.ingest([trace_of(corpus, name, scratch)], database)
        with traceweave.open(database) as run:
            ours, theirs = comparison.compare(run, expected, name)
        if theirs:
            yield outcome(ours, theirs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
