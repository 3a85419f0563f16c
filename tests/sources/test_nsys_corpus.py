"""Real exports of twelve schema generations, against what `nsys stats` says of the same files."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cases import cases
from tests.marks import at_once, first_at_once, nightly
from tests.sources.nsys_loading import LoadedExport, load_export
from traceweave.sources import nsys

EXPORTS = (
    "cuda_learning__2025.1.sqlite", "ddp_4gpu_baseline__nersc.sqlite.gz",
    "ddp_4gpu_bucketcap100mb__nersc.sqlite.gz", "fsdp_2rank_after__2026.2.sqlite",
    "fsdp_2rank_before__2026.2.sqlite", "full_schema_2022.4.sqlite", "full_schema_2023.4.sqlite",
    "jacobi__2023.4.sqlite", "mordred__pre2021.sqlite", "nussinov__2023.3.sqlite",
    "perf_sandbox__2025.5.sqlite", "perlmutter_cloverleaf_mpi__2024.5.sqlite",
    "perlmutter_saxpy_mpi__2022.2.sqlite", "power_iteration__2025.3.sqlite",
    "profiling__2024.6.sqlite", "sgemm__2023.2.sqlite", "vector__2022.4.sqlite",
)  # fmt: skip
SHARED = Path(__file__).resolve().parents[3] / "shared"
COPY_KINDS = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device"}

Sums = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def loaded_of() -> Iterator[Callable[[str], LoadedExport]]:
    """Return a function from the name of an export to its database, loaded once."""
    found: dict[str, LoadedExport] = {}

    def loaded(name: str) -> LoadedExport:
        path = SHARED / "corpus" / "nsys" / name
        if not path.is_file():
            pytest.skip("the folder of real traces is not here: corpus beside the checkout")
        if name not in found:
            found[name] = load_export(path)
        return found[name]

    yield loaded
    for export in found.values():
        export.con.close()


@pytest.fixture(params=at_once(EXPORTS, "mordred__pre2021.sqlite", EXPORTS[0]))
def export(
    request: pytest.FixtureRequest, loaded_of: Callable[[str], LoadedExport]
) -> tuple[str, LoadedExport]:
    return request.param.split(".sqlite")[0], loaded_of(request.param)


def stats(name: str, report: str, label: str, *values: str) -> Sums:
    """Sums by label and value of one report of `nsys stats`; empty where it had nothing to say."""
    path = SHARED / "expected" / "nsys_stats" / f"{name}.{report}.csv"
    sums: Sums = Counter()
    if path.is_file():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                for value in values:
                    sums[canonical(row[label]), value] += int(row[value])
    return sums


def canonical(name: str) -> str:
    """What stays of a name once ABI versions and the numbers of emit_nvtx are off."""
    name = re.sub(r"(?s), (seq|op_id|sizes|input_op_ids) = .*$", "", name)
    return re.sub(r"_v\d{4,}$", "", name)


def ours(loaded: LoadedExport, sql: str, *values: str) -> Sums:
    sums: Sums = Counter()
    for name, *numbers in loaded.rows(sql):
        for value, number in zip(values, numbers, strict=True):
            sums[name, value] += int(number)
    return sums


@pytest.mark.parametrize(
    ("report", "label", "count", "names"),
    [
        ("cuda_gpu_kern_sum", "Name", "Instances",
         "SELECT name, duration_ns FROM base.gpu_ops WHERE kind = 'kernel'"),
        # `nsys stats` counts backtrace rows as calls; here they are events beside the calls
        ("cuda_api_sum", "Name", "Num Calls",
         "SELECT name, duration_ns FROM base.host_ops WHERE kind IN ('runtime', 'driver') UNION ALL"
         " SELECT name, duration_ns FROM base.other_events WHERE category = 'cuda_backtrace'"),
        ("nvtx_sum", "Range", "Instances",
         "SELECT coalesce((args->>'domain') || ':', '') || name AS name, duration_ns"
         " FROM base.host_ops WHERE kind = 'nvtx'"),
    ],
    ids=["kernels", "CUDA calls", "NVTX"],
)  # fmt: skip
def test_times_equal_nsys_stats(
    export: tuple[str, LoadedExport], report: str, label: str, count: str, names: str
) -> None:
    name, loaded = export
    sql = f"SELECT name, sum(duration_ns), count(*) FROM ({names}) GROUP BY 1"
    values = ("Total Time (ns)", count)
    assert ours(loaded, sql, *values) == stats(name, report, label, *values)


def operation(kind: str, copy_kind: str | None) -> str:
    return "[CUDA memset]" if kind == "memset" else f"[CUDA memcpy {COPY_KINDS[copy_kind or '']}]"


def test_copy_times_and_sizes_equal_nsys_stats(export: tuple[str, LoadedExport]) -> None:
    name, loaded = export
    if name in ("mordred__pre2021", "perlmutter_saxpy_mpi__2022.2"):
        pytest.skip("`nsys stats` cannot name copies of exports without enumeration tables")
    rows = loaded.rows(
        "SELECT kind, copy_kind, sum(duration_ns), count(*), sum(bytes) FROM base.gpu_ops"
        " WHERE kind <> 'kernel' GROUP BY ALL"
    )
    times = Counter({(operation(k, c), "Total Time (ns)"): int(t) for k, c, t, _, _ in rows})
    times += Counter({(operation(k, c), "Count"): int(n) for k, c, _, n, _ in rows})
    megabytes = {operation(k, c): f"{b / 1e6:.3f}" for k, c, _, _, b in rows}
    sizes = SHARED / "expected" / "nsys_stats" / f"{name}.cuda_gpu_mem_size_sum.csv"
    expected = {}
    if sizes.is_file():
        with sizes.open(newline="") as file:
            expected = {row["Operation"]: row["Total (MB)"] for row in csv.DictReader(file)}
    assert times == stats(name, "cuda_gpu_mem_time_sum", "Operation", "Total Time (ns)", "Count")
    assert megabytes == expected


def test_every_event_is_stored_or_accounted_for(export: tuple[str, LoadedExport]) -> None:
    _, loaded = export
    ids = " UNION ALL ".join(
        f"SELECT op_id FROM base.{table}"
        for table in ("gpu_ops", "host_ops", "other_events", "memory_events", "counters")
    )
    stored = loaded.rows(f"SELECT count(*), count(DISTINCT op_id) FROM ({ids})")
    skipped = sum(i.count for i in loaded.loaded.issues if i.kind.startswith("skipped"))
    assert stored == [(loaded.loaded.events_stored, loaded.loaded.events_stored)]
    assert loaded.loaded.events_skipped == skipped
    assert loaded.loaded.damaged is None


def test_times_are_utc_within_the_probed_span(export: tuple[str, LoadedExport]) -> None:
    name, loaded = export
    rows = loaded.rows(
        "SELECT min(start_local_ns), max(start_local_ns + duration_ns) FROM ("
        " SELECT start_local_ns, duration_ns FROM base.gpu_ops"
        " UNION ALL SELECT start_local_ns, duration_ns FROM base.host_ops)"
    )
    first, last = loaded.trace.first_ns, loaded.trace.last_ns
    assert first is not None
    assert last is not None
    assert first <= rows[0][0] < rows[0][1] <= last
    if name != "mordred__pre2021":
        assert 1_600_000_000 * 10**9 < first < 1_800_000_000 * 10**9


@first_at_once()
@cases
def test_kernels_find_their_launch(
    loaded_of: Callable[[str], LoadedExport], name: str, linked: int, kernels: int
) -> None:
    """Whole recordings link every kernel; windows cut out of one lose some at their start."""
    loaded = loaded_of(name)
    assert loaded.rows(
        "SELECT count(launch_op_id), count(*) FROM base.gpu_ops WHERE kind = 'kernel'"
    ) == [(linked, kernels)]
    assert loaded.rows(
        "SELECT count(*) FROM base.gpu_ops AS g JOIN base.host_ops AS h ON g.launch_op_id = h.op_id"
        " WHERE g.correlation <> h.correlation OR g.rank <> h.rank"
        " OR g.start_local_ns < h.start_local_ns"
    ) == [(0,)]


@first_at_once()
@pytest.mark.parametrize(
    ("name", "calls"),
    [("fsdp_2rank_before__2026.2.sqlite", 32), ("fsdp_2rank_after__2026.2.sqlite", 30)],
)
def test_one_report_of_torchrun_gives_two_ranks_with_their_collectives(
    loaded_of: Callable[[str], LoadedExport], name: str, calls: int
) -> None:
    """Groups of sends and receives inside PyTorch's nccl:all_to_all are all-to-alls; the first
    kernel of each window was launched before the window began, so only its name speaks."""
    loaded = loaded_of(name)
    assert [(p.rank, p.device, p.backend, p.nccl_version) for p in loaded.trace.processes] == [
        (0, 0, "nccl", "2.27"),
        (1, 1, "nccl", "2.27"),
    ]
    assert loaded.rows(
        "SELECT rank, op, evidence, count(*), count(DISTINCT gpu_op_id), count(bytes)"
        " FROM base.collective_calls GROUP BY ALL ORDER BY ALL"
    ) == [
        (0, "all_to_all", "nvtx", calls, calls, 0),
        (0, "unknown", "name", 1, 1, 0),
        (1, "all_to_all", "nvtx", calls, calls, 0),
        (1, "unknown", "name", 1, 1, 0),
    ]
    assert loaded.rows(
        "SELECT count(*) FROM base.collective_calls AS c JOIN base.gpu_ops AS g"
        " ON c.gpu_op_id = g.op_id AND c.start_local_ns = g.start_local_ns"
        " AND c.duration_ns = g.duration_ns AND c.rank = g.rank"
    ) == [(2 * calls + 2,)]
    assert loaded.issue("collectives without size") == 2 * calls + 2


@nightly
def test_environment_tells_rank_and_world(loaded_of: Callable[[str], LoadedExport]) -> None:
    loaded = loaded_of("ddp_4gpu_baseline__nersc.sqlite.gz")
    (process,) = loaded.trace.processes
    assert (process.rank, process.rank_source, process.world_size) == (0, "environment RANK", 4)
    assert process.gpu_name == "NVIDIA A100-SXM4-40GB"
    assert loaded.rows("SELECT op, evidence, count(*) FROM base.collective_calls GROUP BY ALL") == [
        ("all_reduce", "nvtx", 472)
    ]


@nightly
def test_backtrace_rows_double_no_calls_and_mpi_ranges_are_messages(
    loaded_of: Callable[[str], LoadedExport],
) -> None:
    loaded = loaded_of("perlmutter_saxpy_mpi__2022.2.sqlite")
    assert loaded.rows("SELECT kind, count(*) FROM base.host_ops GROUP BY 1 ORDER BY 1") == [
        ("driver", 1),
        ("nvtx", 22),
        ("runtime", 56),
    ]
    # by sqlite3 over NVTX_EVENTS
    assert loaded.rows(
        "SELECT op, count(*), sum(duration_ns)::BIGINT FROM base.collective_calls GROUP BY 1"
        " ORDER BY 1"
    ) == [("recv", 5, 107_721_088), ("send", 10, 136_342_959)]
    (process,) = loaded.trace.processes
    assert (process.rank, process.rank_source) == (0, "thread name 'MPI Rank'")


def test_every_export_of_the_corpus_is_recognized(corpus: Path) -> None:
    heads = {name: b"SQLite format 3\x00" + bytes(84) for name in EXPORTS}
    assert {n for n, head in heads.items() if nsys.recognize(corpus / "nsys" / n, head)} == set(
        EXPORTS
    )
