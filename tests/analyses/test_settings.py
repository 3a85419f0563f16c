from tests.analyses.builders import Builder, rows
from traceweave.store.rows import insert_rows


def test_it_shows_where_ranks_differ(build: Builder) -> None:
    told = {
        0: {"version": {"torch": "2.11"}, "switch": {"NCCL_ALGO": "Ring"}},
        1: {"version": {"torch": "2.11"}, "switch": {"NCCL_ALGO": "Tree"}},
        2: {"version": {"torch": "2.11"}, "switch": {}},
    }
    insert_rows(build.con, "base.job_settings", [
        {"rank": rank, "source_id": source_id, "kind": kind, "name": name, "value": value}
        for rank, kinds in told.items()
        for kind, settings in kinds.items()
        for name, value in settings.items()
        for source_id in (rank, rank + 3)  # recorded in two windows
    ])  # fmt: skip
    build.rank(3)  # recorded without traceweave.capture: what it ran with is not known
    assert [tuple(row.values()) for row in rows(build.con, "settings")] == [
        ("switch", "NCCL_ALGO", "Ring", [0], 3),
        ("switch", "NCCL_ALGO", "Tree", [1], 3),
        ("switch", "NCCL_ALGO", None, [2], 3),
        ("version", "torch", "2.11", [0, 1, 2], 1),
    ]


def test_without_capture_there_are_no_rows(build: Builder) -> None:
    build.rank(0)
    assert rows(build.con, "settings") == []
