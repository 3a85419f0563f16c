"""Simulated runs that tests of several folders ask: each is ingested once per test session.

Give one of these to the fixture `simulated_database` rather than a run that differs from it in
what the test does not look at."""

from dataclasses import replace

from traceweave_simulator import Config, Gap

MS = 1_000_000

FOUR_RANKS = Config(ranks=4, steps=4, layers=4)
SLOW_GPU = replace(FOUR_RANKS, straggler={2: 3 * MS})
SLOW_GPU_TP = replace(SLOW_GPU, parallelism="tp", group_size=2)
SLOW_DATA = replace(FOUR_RANKS, gaps=(Gap("data_loading", 4 * MS, ranks=(1,)),))
SLOW_HOST = replace(FOUR_RANKS, slow_host={3: 150_000})
SYNC = replace(FOUR_RANKS, gaps=(Gap("sync", 3 * MS, ranks=(0,)),))

SKEWED = Config(
    ranks=4, hosts=2, steps=3, layers=4, clock_offset_ns=100_000_000, clock_drift_ppm=20,
    end_jitter_ns=5_000,
)  # fmt: skip
"""On two hosts, clocks up to 100 ms apart and drifting."""

# what the analyses of parallelism are held against, event by event
DDP = Config(ranks=3, steps=2, layers=5, straggler={2: 200_000})
FSDP = Config(ranks=3, steps=2, layers=4, parallelism="fsdp", straggler={1: 90_000})
PP = Config(ranks=8, steps=2, layers=4, parallelism="pp", group_size=4, microbatches=6)
