"""Fixed rows of an nsys export: enumerations, export metadata, the target's description."""

from __future__ import annotations

ENUMS: dict[str, list[tuple[int, str, str]]] = {
    "ENUM_CUDA_MEMCPY_OPER": [
        (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
    ],
    "ENUM_CUDA_MEM_KIND": [
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
    ],
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": [(1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular")],
    "ENUM_CUPTI_SYNC_TYPE": [
        (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    ],
    "ENUM_CUPTI_STREAM_TYPE": [
        (1, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"),
        (2, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"),
        (3, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"),
    ],
    "ENUM_NSYS_EVENT_TYPE": [
        (33, "NvtxCategory", "NvtxCategory"),
        (34, "NvtxMark", "NvtxMark"),
        (39, "NvtxThread", "NvtxThread"),
        (59, "NvtxPushPopRange", "NvtxPushPopRange"),
        (60, "NvtxStartEndRange", "NvtxStartEndRange"),
        (75, "NvtxDomainCreate", "NvtxDomainCreate"),
    ],
    "ENUM_NSYS_EVENT_CLASS": [
        (0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        (1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
    ],
}
"""(id, name, label) of the values that occur."""

EXPORT_META: list[tuple[str, str]] = [
    ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
    ("EXPORT_PRODUCT_VERSION", "2023.4.4.54"),
    ("EXPORT_PRODUCT_DATE", "2023.4"),
    ("EXPORT_SCHEMA_VERSION", "3.7.2"),
    ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
    ("EXPORT_SCHEMA_VERSION_MINOR", "7"),
    ("EXPORT_SCHEMA_VERSION_MICRO", "2"),
    ("EXPORT_PLATFORM", "linux-desktop"),
    ("EXPORT_ARCH", "x64"),
    ("EXPORT_PARAM_LAZY", "false"),
    ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
    ("EXPORT_PARAM_TIME_SHIFT", "0"),
    ("EXPORT_CONFIG_TIME_SHIFT", "0"),
]


def system_environment(vm: int, host: str) -> list[dict[str, object]]:
    """Return the rows of TARGET_INFO_SYSTEM_ENV."""
    facts = [
        ("CpuCores", 1, "96"),
        ("CpuDescription", 13, "AMD EPYC"),
        ("NvDriverVersion", 205, "580.95.05"),
        ("OsDescription", 605, "Ubuntu 22.04.4 LTS"),
        ("CudaDriverVersion", 611, "13000"),
        ("Hostname", 619, host),
    ]
    return [
        {
            "globalVid": vm,
            "devStateName": "Local (CLI)",
            "name": name,
            "nameEnum": number,
            "value": value,
        }
        for name, number, value in facts
    ]


def gpu_row(vm: int, device: int) -> dict[str, object]:
    """Return a row of TARGET_INFO_GPU: an H100."""
    return {
        "vmId": vm,
        "id": device,
        "name": "NVIDIA H100 80GB HBM3",
        "busLocation": f"0000:{0x1B + 0x10 * device:02x}:00.0",
        "isDiscrete": 1,
        "l2CacheSize": 52_428_800,
        "totalMemory": 85_028_372_480,
        "memoryBandwidth": 3_352_320_000_000,
        "clockRate": 1_980_000_000,
        "smCount": 132,
        "pwGpuId": device,
        "uuid": f"00000000-0000-4000-8000-{device:012x}",
        "luid": 0,
        "chipName": "GH100",
        "cuDevice": device,
        "threadsPerWarp": 32,
        "computeMajor": 9,
        "computeMinor": 0,
        "smMajor": 9,
        "smMinor": 0,
    }
