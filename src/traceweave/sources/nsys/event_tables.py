"""Which tables of an export hold events, and which of their columns are read.

The column lists are the union over all schema versions from before 2021 to 3.28. Left out on
purpose: process streams, log files and environments (they hold secrets) and the arguments of OS
calls (command lines may hold secrets).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

_TYPES = {
    "int": pa.int64(),
    "string": pa.int64(),  # an id of StringIds
    "text": pa.string(),
    "real": pa.float64(),
    "blob": pa.binary(),
}


@dataclass(frozen=True)
class EventTable:
    """One table of events and the columns to read, each as `name` or `name:kind`."""

    name: str
    columns: tuple[str, ...]
    category: str | None = None
    """Set for tables that are stored as `other_events` of this category, all columns alike."""

    @property
    def staged(self) -> str:
        """Name of the temporary relation with the rows and all these columns."""
        return "nsys_" + self.name.lower()

    @property
    def stored(self) -> str:
        """Name of the temporary table behind it, with the columns that hold anything."""
        return "nsys_rows_of_" + self.name.lower()

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Arrow types by column name, in order."""
        return {c.partition(":")[0]: _TYPES[c.partition(":")[2] or "int"] for c in self.columns}

    @property
    def string_ids(self) -> tuple[str, ...]:
        """Columns that refer to StringIds."""
        return tuple(c.partition(":")[0] for c in self.columns if c.endswith(":string"))


def _columns(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_GPU = "start end deviceId contextId greenContextId streamId correlationId globalPid "

KERNELS = EventTable(
    "CUPTI_ACTIVITY_KIND_KERNEL",
    _columns(
        _GPU + "demangledName:string shortName:string launchType cacheConfig registersPerThread"
        " gridX gridY gridZ blockX blockY blockZ clusterX clusterY clusterZ staticSharedMemory"
        " dynamicSharedMemory sharedMemoryExecuted localMemoryPerThread localMemoryTotal gridId"
        " graphId graphNodeId"
    ),
)
MEMCPY = EventTable(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    _columns(
        _GPU + "bytes copyKind srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId"
        " migrationCause graphNodeId copyCount"
    ),
)
MEMSET = EventTable(
    "CUPTI_ACTIVITY_KIND_MEMSET", _columns(_GPU + "value bytes graphNodeId memKind")
)
GRAPH_TRACE = EventTable("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _columns(_GPU + "graphId graphExecId"))
RUNTIME = EventTable(
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    _columns("start end eventClass globalTid correlationId nameId:string returnValue callchainId"),
)
NVTX = EventTable(
    "NVTX_EVENTS",
    _columns(
        "start end eventType rangeId category color text:text globalTid endGlobalTid textId:string"
        " domainId uint64Value int64Value doubleValue:real uint32Value int32Value floatValue:real"
        " jsonTextId:string jsonText:text"
    ),
)
PAYLOAD_COLUMN = "binaryData"
"""Read with NVTX, decoded batch by batch, never stored as it is."""

OS_CALLS = EventTable(
    "OSRT_API", _columns("start end globalTid nameId:string returnValue nestingLevel")
)
_MPI = "start end globalTid textId:string "
MPI = (
    EventTable(
        "MPI_COLLECTIVES_EVENTS",
        _columns(_MPI + "commHandle commUid rootRank size recvSize requestHandle"),
    ),
    EventTable(
        "MPI_P2P_EVENTS", _columns(_MPI + "commHandle commUid tag remoteRank size requestHandle")
    ),
    EventTable("MPI_START_WAIT_EVENTS", _columns(_MPI + "requestHandle")),
    EventTable("MPI_OTHER_EVENTS", _columns(_MPI)),
)
SYNCHRONIZATION = EventTable(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", _columns(_GPU + "syncType eventId eventSyncId")
)
CUDA_EVENT = EventTable(
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    _columns(
        "timestamp deviceId contextId greenContextId streamId correlationId globalPid eventId"
        " eventSyncId"
    ),
)
DIAGNOSTIC = EventTable(
    "DIAGNOSTIC_EVENT", _columns("timestamp timestampType source severity text:text globalPid")
)
MEMORY_USAGE = EventTable(
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    _columns(
        "start globalPid deviceId contextId streamId address bytes memKind memoryOperationType"
        " name:text correlationId localMemoryPoolAddress localMemoryPoolReleaseThreshold"
        " localMemoryPoolSize localMemoryPoolUtilizedSize importedMemoryPoolAddress"
        " importedMemoryPoolProcessId"
    ),
)
GPU_METRICS = EventTable("GPU_METRICS", _columns("timestamp typeId metricId value"))
NETWORK_METRICS = (
    EventTable(
        "NET_NIC_METRIC", _columns("start end globalId portId metricsListId metricsIdx value")
    ),
    EventTable(
        "NET_IB_SWITCH_METRIC", _columns("start end globalId metricsListId metricsIdx value")
    ),
)
_CALL = "start end globalTid nameId:string eventClass "
_OPENMP = _CALL + "correlationId eventKind kind parallelId parentTaskId taskId waitId threadId"
_OPENMP_KINDS = _columns(
    "CANCEL CRITICAL_SECTION DISPATCH FLUSH LOCK_DESTROY LOCK_INIT MASTER MUTEX_RELEASED"
    " MUTEX_WAIT PARALLEL REDUCTION SYNC_REGION SYNC_REGION_WAIT TASK TASK_CREATE TASK_SCHEDULE"
    " THREAD WORKSHARE"
)
_OPENACC = "start end nameId:string globalTid eventKind lineNo cuDeviceId cuContextId cuStreamId"
OTHER = (
    EventTable(
        "CUPTI_ACTIVITY_KIND_OVERHEAD", _columns(_CALL + "correlationId overheadType"), "overhead"
    ),
    EventTable(
        "PROFILER_OVERHEAD",
        _columns("start end globalTid nameId:string returnValue overheadType"),
        "profiler_overhead",
    ),
    EventTable(
        "CUDA_GRAPH_EVENTS",
        _columns(_CALL + "graphId originalGraphId graphExecId graphNodeId originalGraphNodeId"),
        "cuda_graph",
    ),
    EventTable(
        "CUDA_GRAPH_NODE_EVENTS",
        _columns(_CALL + "graphNodeId originalGraphNodeId"),
        "cuda_graph",
    ),
    EventTable("CUDNN_EVENTS", _columns(_CALL), "cudnn"),
    EventTable("CUBLAS_EVENTS", _columns(_CALL), "cublas"),
    EventTable(
        "CUDA_GPU_MEMORY_POOL_EVENTS",
        _columns(
            "start globalPid deviceId address operationType poolType correlationId minBytesToKeep"
            " localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize"
        ),
        "memory_pool",
    ),
    EventTable(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        _columns("start globalPid address CpuInstruction originalFaultPc unresolvedFaultPc"),
        "page_fault",
    ),
    EventTable(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        _columns("start end globalPid deviceId address numberOfPageFaults faultAccessType"),
        "page_fault",
    ),
    EventTable(
        "GPU_CONTEXT_SWITCH_EVENTS",
        _columns("timestamp tag vmId seqNo contextId globalPid gpuId"),
        "gpu_context_switch",
    ),
    EventTable("UCP_EVENTS", _columns(_MPI), "ucx"),
    EventTable(
        "UCP_SUBMIT_EVENTS", _columns(_MPI + "bufferAddr packedSize peerWorkerUid tag"), "ucx"
    ),
    EventTable(
        "UCP_PROGRESS_EVENTS", _columns(_MPI + "bufferAddr packedSize peerWorkerUid tag"), "ucx"
    ),
    *(
        EventTable(f"CUPTI_ACTIVITY_KIND_OPENACC_{kind}", _columns(_OPENACC), "openacc")
        for kind in ("DATA", "LAUNCH", "OTHER")
    ),
    *(
        EventTable(f"OPENMP_EVENT_KIND_{kind}", _columns(_OPENMP), "openmp")
        for kind in _OPENMP_KINDS
    ),
)

LOADED: tuple[EventTable, ...] = (
    KERNELS, MEMCPY, MEMSET, GRAPH_TRACE, RUNTIME, NVTX, OS_CALLS, *MPI, SYNCHRONIZATION,
    CUDA_EVENT, DIAGNOSTIC, MEMORY_USAGE, GPU_METRICS, *NETWORK_METRICS, *OTHER,
)  # fmt: skip
"""Every table that is read, in the order in which its rows are numbered."""

NOT_LOADED: Mapping[str, str] = {
    "SCHED_EVENTS": "thread scheduling events",
    "COMPOSITE_EVENTS": "CPU samples",
    "OSRT_FILE_ACCESS_EVENTS": "file access events (they name files)",
}
"""Tables of events that are counted but not stored, and what they hold."""

TIME_COLUMNS = ("start", "timestamp", "rawTimestamp")
"""A table of unknown name with one of these columns holds events."""

NO_EVENTS = frozenset({"MPI_COMMUNICATORS", "OSRT_FILE_ACCESS_DESCRIPTORS"})
"""Tables with a time column that describe things and record no events."""


def is_of_nsys(table: str) -> bool:
    """Tell whether events, or what they refer to, are looked for in a table of this name."""
    known = {*(loaded.name for loaded in LOADED), *NOT_LOADED, "StringIds", "MPI_RANKS"}
    return table in known or table.startswith(("TARGET_INFO_", "META_DATA_", "ENUM_"))
