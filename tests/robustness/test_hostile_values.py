"""Any value under any key that a statement reads: no file is refused for it, none is miscounted."""

import json
from typing import Any

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.robustness.conftest import Load
from tests.robustness.loading import unaccounted

VALUES = st.sampled_from(
    [None, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 1e300, -1e300, 1.5, True, {},
     {"a": 1}, [], "", "x", "-1", "9" * 30, "1e400", "nan", "[1,2]", "[", '"', "'", "\0",
     [[]], [[1, 2]], [[[4, 4]]], [[9 * 10**18] * 2], [[2**62, 4]], [[-5, 3]], [["a"]], [None],
     "[0, 1, ...]", "[99999999999]", [[2**63]], [[1e300]], [[0.5]]]
)  # fmt: skip
ARGS = st.dictionaries(
    st.sampled_from(
        ["device", "context", "stream", "correlation", "bytes", "kind", "graph node id",
         "graph id", "original_stream",
         "In msg nelems", "Out msg nelems", "Group size", "Process Group Name", "Seq", "Dst Rank",
         "Process Group Description", "Process Group Ranks", "Src Rank", "In msg size",
         "Out msg size", "Input Dims", "Input type", "Sequence number", "Bytes", "Addr",
         "Total Allocated", "Total Reserved", "Device Type", "Device Id", "External id"]
    ),
    VALUES, max_size=9,
)  # fmt: skip
COLLECTIVE = st.fixed_dictionaries(
    {},
    optional={
        "Collective name": st.sampled_from(["allreduce", "_allgather_base", "send", "recv", 5]),
        "dtype": st.sampled_from(["Float", "BFloat16", "x", 5]),
    },
)
EVENT = st.fixed_dictionaries(
    {
        "ph": st.sampled_from("XXXXXXBEsftiCM"),
        "cat": st.sampled_from(
            ["kernel", "gpu_memcpy", "gpu_memset", "cpu_op", "user_annotation", "cuda_runtime",
             "cuda_driver", "python_function", "ac2g", "fwdbwd", "cpu_instant_event", None]
        ),
        "name": st.sampled_from(
            ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv", "nccl:send",
             "record_param_comms", "nccl:all_reduce", "gloo:all_reduce", "c10d::allreduce_",
             "Memcpy HtoD (Pageable -> Device)", "ProfilerStep#5", "ProfilerStep#9999999999999999",
             "step 999999999999999", "[memory]", "cudaLaunchKernel", "nccl:_all_gather_base", None]
        ),
        "pid": st.sampled_from([0, 9, 9, 9, "x", 2**63, -1, None, 1.5]),
        "tid": st.sampled_from([7, 9, 9, 9, "stream 7", "x", 2**64, None]),
        "ts": st.sampled_from([1, 2, 3, 5, 10, 50, 100.5, 3.9e15, -3.9e15, 1e308, "5", "x", None]),
        "dur": st.sampled_from([0, 1, 5, 10, 100, 9.9e14, -1, None, "3"]),
        "id": st.sampled_from([1, 2, 3, 2**70, "0x5", None]),
        "args": st.builds(lambda a, b: {**a, **b}, ARGS, COLLECTIVE) | VALUES,
    }
)  # fmt: skip
TOP = st.fixed_dictionaries(
    {
        "baseTimeNanoseconds": st.sampled_from([0, 1759300074000000000, 4 * 10**18]) | VALUES,
        "distributedInfo": st.fixed_dictionaries(
            {
                "rank": VALUES,
                "world_size": VALUES,
                "pg_config": VALUES
                | st.lists(
                    st.fixed_dictionaries(
                        {"pg_name": VALUES, "pg_desc": VALUES, "pg_size": VALUES, "ranks": VALUES}
                    )
                ),
            }
        ),
        "deviceProperties": VALUES
        | st.lists(st.fixed_dictionaries({"id": VALUES, "name": VALUES})),
    }
)


@given(top=TOP, events=st.lists(EVENT, min_size=40, max_size=80))
@settings(
    max_examples=examples(12), deadline=None, suppress_health_check=[*HealthCheck], derandomize=True
)
def test_no_value_makes_a_file_fail_or_an_event_vanish(
    top: dict[str, Any], events: list[dict[str, Any]], load: Load, con: duckdb.DuckDBPyConnection
) -> None:
    outcome = load(json.dumps({**top, "traceEvents": events}).encode())
    assert outcome.refused is None
    assert outcome.damaged is None
    assert outcome.read == len(events)
    assert outcome.read == outcome.stored + sum(issue.count for issue in outcome.issues)
    lost = sum(i.count for i in outcome.issues)
    launch_arrows_lost = con.execute(
        "SELECT count(*) FROM new_events WHERE lane = 'launch arrow'"
    ).fetchall()[0][0]
    assert lost - launch_arrows_lost <= len(unaccounted(con)) <= lost
