"""Whose report is it: ranks, devices and hosts of the processes of an export."""

from pathlib import Path
from typing import Any

from tests.cases import cases
from tests.sources.nsys_export import (
    EPOCH_NS,
    NCCL_SCHEMAS,
    Row,
    call,
    init_payload,
    kernel,
    nccl,
    nvtx,
    thread,
    write_export,
)
from traceweave.sources import nsys


def environment(*assignments: str) -> list[Row]:
    return [{"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": a} for a in assignments]


def ranks(path: Path, **tables: Any) -> list[tuple[int | None, int | None, str | None, int | None]]:
    trace = nsys.probe(write_export(path / "r.sqlite", **tables))
    return [(p.pid, p.rank, p.rank_source, p.world_size) for p in trace.processes]


@cases
def test_the_environment_of_a_lone_process(
    tmp_path: Path, variables: list[str], expected: tuple[int | None, str | None, int | None]
) -> None:
    """A rank that its world is too small for is no rank."""
    assert ranks(
        tmp_path,
        META_DATA_CAPTURE=environment(*variables),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 1, 2, 1, "k")],
    ) == [(11, *expected)]


def test_the_device_environment_serves_as_well(tmp_path: Path) -> None:
    assert ranks(
        tmp_path,
        TARGET_INFO_SYSTEM_ENV=[
            {"name": "DeviceEnvironment", "value": "HOME=/;RANK=1;WORLD_SIZE=2"}
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 1, 2, 1, "k")],
    ) == [(11, 1, "environment RANK", 2)]


def test_several_processes_without_evidence_are_ordered_by_device(tmp_path: Path) -> None:
    """The launcher's RANK says nothing of its children."""
    source = "order of devices in the report"
    assert ranks(
        tmp_path,
        META_DATA_CAPTURE=environment('RANK="0"'),
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(30, 1, 2, 1, "k", deviceId=0),
            kernel(20, 1, 2, 1, "k", deviceId=1),
        ],
    ) == [(30, 0, source, None), (20, 1, source, None)]


def test_the_second_node_counts_on_from_the_first(tmp_path: Path) -> None:
    source = "order of devices in the report, as node 1 of nodes with 2 ranks each"
    assert ranks(
        tmp_path,
        META_DATA_CAPTURE=environment('NODE_RANK="1"'),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(p, 1, 2, 1, "k", deviceId=p - 20) for p in (20, 21)],
    ) == [(20, 2, source, None), (21, 3, source, None)]


def test_contradicting_evidence_is_reported(tmp_path: Path) -> None:
    trace = nsys.probe(
        write_export(
            tmp_path / "conflict.sqlite",
            META_DATA_CAPTURE=environment('RANK="3"'),
            MPI_RANKS=[{"globalTid": thread(11), "rank": 1}],
            CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 1, 2, 1, "k")],
        )
    )
    assert [(p.rank, p.rank_source) for p in trace.processes] == [(1, "MPI_RANKS")]
    assert trace.notes == (
        "MPI_RANKS says rank 1, environment RANK says rank 3: the former is used;"
        " --rank settles it",
    )


# what was wrong: without a call of all ranks two files were rank 2, and none was read
@cases
def test_a_communicator_of_some_ranks_does_not_number_all(
    tmp_path: Path, variables: list[str], expected: tuple[int, str, int | None]
) -> None:
    found = ranks(
        tmp_path,
        META_DATA_CAPTURE=environment(*variables),
        NVTX_EVENTS=[nccl(11, 0, 9, "ncclCommInitRankConfig", init_payload(7, 4, 2, 0))],
        NVTX_PAYLOAD_SCHEMA_ENTRIES=NCCL_SCHEMAS,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 10, 20, 1, "k")],
    )
    assert found == [(11, *expected)]


def test_who_is_a_rank(tmp_path: Path) -> None:
    """Kernels and NCCL ranges make a rank; CUDA calls alone only where there is nothing better."""
    (only,) = ranks(tmp_path, CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 2, 1, "cudaFree")])
    assert only[0] == 11
    (tmp_path / "r.sqlite").unlink()
    found = ranks(
        tmp_path,
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 2, 1, "cudaFree")],
        NVTX_EVENTS=[
            nvtx(33, 1, 2, "step"),
            nvtx(44, 1, 2, "", textId="ncclAllReduce", domainId=1),
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(55, 1, 2, 1, "k")],
    )
    assert sorted(str(r[0]) for r in found) == ["44", "55"]


def test_the_number_of_a_gpu_is_not_its_cuda_ordinal(tmp_path: Path) -> None:
    trace = nsys.probe(
        write_export(
            tmp_path / "gpu.sqlite",
            TARGET_INFO_GPU=[
                {"id": 0, "name": "NVIDIA A100", "cuDevice": 1},
                {"id": 1, "name": "NVIDIA T4", "cuDevice": 0},
            ],
            TARGET_INFO_CUDA_DEVICE=[
                {"gpuId": 1, "cudaId": 0, "pid": 11},
                {"gpuId": 0, "cudaId": 1, "pid": 11},
            ],
            TARGET_INFO_SYSTEM_ENV=[{"name": "Hostname", "value": "node7"}],
            CUPTI_ACTIVITY_KIND_KERNEL=[
                kernel(11, 10, 20, 1, "k"), kernel(11, 30, 41, 2, "k"),
                kernel(11, 30, 40, 2, "k", deviceId=1),
            ],
        )
    )  # fmt: skip
    (process,) = trace.processes
    assert (process.device, process.gpu_name, process.host) == (0, "NVIDIA T4", "node7")
    assert trace.notes == ("process 11 drives 2 GPUs: it counts as one rank",)
    assert (trace.first_ns, trace.last_ns) == (EPOCH_NS + 10, EPOCH_NS + 41)
