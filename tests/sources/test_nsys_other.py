"""Waits, CUDA events, diagnostics, memory and metric samples of an export."""

from pathlib import Path

from tests.marks import nightly
from tests.sources.nsys_export import EPOCH_NS, call, process, thread
from tests.sources.nsys_loading import load_rows


@nightly
def test_waits_events_and_diagnostics_are_kept(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(11, 10, 40, 1, "cudaStreamSynchronize_v3020"),
            call(11, 50, 52, 2, "cudaEventRecord_v3020"),
        ],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            {"start": 12, "end": 39, "deviceId": 0, "contextId": 1, "streamId": 7,
             "correlationId": 1, "globalPid": process(11), "syncType": 3,
             "eventId": 4294967295},
        ],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[
            {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 2,
             "globalPid": process(11), "eventId": 6},
        ],
        CUPTI_ACTIVITY_KIND_OVERHEAD=[
            {"start": 1, "end": 5, "eventClass": 103, "globalTid": thread(11),
             "correlationId": 1, "nameId": "Lazy function load", "overheadType": 7},
        ],
        DIAGNOSTIC_EVENT=[
            {"timestamp": 60, "timestampType": 1, "source": 1, "severity": 2,
             "text": "events were dropped", "globalPid": process(11)},
        ],
    )  # fmt: skip
    assert loaded.rows(
        "SELECT phase, category, name, pid, tid, start_local_ns - 1780000000000000000, duration_ns,"
        " args FROM base.other_events ORDER BY start_local_ns"
    ) == [
        ("X", "overhead", "Lazy function load", "11", "11", 1, 4,
         '{"eventClass":103,"correlationId":1,"overheadType":7}'),
        ("X", "cuda_sync", "Stream Synchronize", "11", "11", 12, 27,
         '{"device":0,"context":1,"stream":7,"correlation":1}'),
        ("i", "cuda_event", "CUDA event", "11", "11", 50, None,
         '{"device":0,"context":1,"stream":7,"event":6,"correlation":2,"time of":"record call"}'),
        ("i", "diagnostic", "events were dropped", "11", None, 60, None,
         '{"severity":"warning","source":1}'),
    ]  # fmt: skip
    (warning,) = [i for i in loaded.loaded.issues if i.kind == "profiler warning"]
    assert (warning.count, warning.example) == (1, "events were dropped")


def test_memory_and_metrics(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 9, 1, "cudaMalloc_v3020")],
        CUDA_GPU_MEMORY_USAGE_EVENTS=[
            {"start": 8, "globalPid": process(11), "deviceId": 0, "contextId": 1,
             "address": -4096, "bytes": 1024, "memKind": 2, "memoryOperationType": op,
             "correlationId": 1}
            for op in (0, 1)
        ],
        GPU_METRICS=[{"timestamp": 5, "typeId": 0x0100000003, "metricId": 9, "value": 42}],
        TARGET_INFO_GPU_METRICS=[
            {"typeId": 0x0100000003, "metricId": 9, "metricName": "SM Active [%]"}
        ],
        NET_NIC_METRIC=[
            {"start": 6, "end": 7, "globalId": 1, "metricsListId": 2, "metricsIdx": 0,
             "value": 77}
        ],
        TARGET_INFO_NETWORK_METRICS=[
            {"metricsListId": 2, "metricsIdx": 0, "name": "Bytes sent", "unit": "B/s"}
        ],
    )  # fmt: skip
    assert loaded.rows(
        "SELECT rank, device, name, value, address FROM base.memory_events ORDER BY op_id"
    ) == [(0, "cuda:0", "allocate device", 1024, -4096), (0, "cuda:0", "free device", -1024, -4096)]
    assert loaded.rows(
        "SELECT rank, device, name, at_local_ns, value, unit FROM base.counters"
        " ORDER BY at_local_ns"
    ) == [
        (None, "gpu 3", "SM Active [%]", EPOCH_NS + 5, 42.0, None),
        (None, "nic 1", "Bytes sent", EPOCH_NS + 6, 77.0, "B/s"),
    ]
