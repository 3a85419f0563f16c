from tests.analyses.builders import Builder, rows, told

US = 1_000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_loading_and_the_idle_time_it_causes(build: Builder) -> None:
    # host    0...step 1...100            loading 10..60 (inside: next_batch 20..30), launch at 65
    # device  0..10            70..90
    build.rank(0)
    build.step(0, 1, host=(0, 100 * US), device=(0, 90 * US))
    build.step(0, 2, host=(100 * US, 150 * US))
    build.host(0, (10 * US, 60 * US), LOADER, kind="annotation")
    build.host(0, (20 * US, 30 * US), "next_batch", kind="python", depth=1)
    build.gpu(0, (0, 10 * US), launch=build.launch(0, (-5 * US, -4 * US)))
    build.gpu(0, (70 * US, 90 * US), launch=build.launch(0, (65 * US, 66 * US)))
    assert rows(build.con, "data_loading") == [
        {
            "rank": 0,
            "step": 1,
            "window_ns": 100_000,
            "loading_ns": 50_000,
            "loads": 1,
            "longest_ns": 50_000,
            "loading_op": LOADER,
            "loading_share": 0.5,
            # until the launch has returned
            "gpu_idle_ns": 56_000,
            "gpu_idle_share": 0.56,
            "note": None,
        },
        {
            "rank": 0, "step": 2, "window_ns": 50_000, "loading_ns": 0, "loads": 0,
            "longest_ns": None, "loading_op": None, "loading_share": 0.0, "gpu_idle_ns": 0,
            "gpu_idle_share": 0.0, "note": None,
        },
    ]  # fmt: skip


def test_loading_is_cut_at_the_window_and_overlapping_ranges_count_once(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 50))
    build.step(0, 2, host=(50, 100))
    build.gpu(0, (0, 100))
    build.host(0, (40, 60), "data_loading", kind="nvtx")
    build.host(0, (55, 70), "prefetch_batch", kind="nvtx", tid=2)
    assert told(build.con, "data_loading", "step loading_ns loads longest_ns loading_op") == [
        (1, 10, 1, 10, "data_loading"),
        (2, 20, 0, 10, "data_loading"),
    ]


def test_without_such_ranges_nothing_is_claimed(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 50))
    build.gpu(0, (0, 10))
    build.gpu(0, (30, 40))
    [row] = rows(build.con, "data_loading")
    assert (row["loading_ns"], row["gpu_idle_ns"], row["loading_share"]) == (None, None, None)
    assert row["note"] == "no range in which the training loop gets data is in the trace"
