"""What is known of one run as a whole: hardware, ranks, profiler, steps, and the work it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from traceweave.comparison.side import Steps, ask, query


@dataclass(frozen=True)
class Facts:
    """One run. Texts are as the traces have them; what no trace says is None or empty."""

    timeline: str
    """'gpu', or 'cpu' where no GPU work was recorded."""
    gpu_models: tuple[str, ...]
    world_size: int | None
    ranks: tuple[int, ...]
    roles: tuple[str, ...]
    """What the recorded ranks are to each other: stages of a pipeline; empty: all do the same."""
    hosts: tuple[str, ...]
    profilers: tuple[str, ...]
    """With their versions."""
    formats: tuple[str, ...]
    backends: tuple[str, ...]
    nccl_versions: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    """Names and values of the versions and switches that every rank that tells ran with."""
    step_sources: tuple[str, ...]
    """What marks the steps that count; empty: nothing, and the whole recording counts."""
    steps_counted: int
    steps_marked: int
    extras: tuple[str, ...]
    """What was recorded beside operators, GPU work and ranges."""
    tick_ns: int
    """Smallest difference of times that every trace can tell."""
    arithmetic: tuple[str, ...]
    """Types of numbers that operators multiply, where their shapes were recorded."""
    compute: dict[str, float]
    """Compute by the name of the kernel, or of the operator on the CPU, ns."""
    operators: dict[str, float]
    """Calls of operators by name."""
    collectives: dict[str, float]
    """Calls by operation."""
    step_flops: float | None = None
    """Arithmetic of a rank in its usual step; None: no step, or no shapes, were recorded."""
    messages: tuple[str, ...] = ()
    """Types of numbers that collectives move."""
    in_part: tuple[int, ...] = ()
    """Ranks whose files end early; how much is missing is not known."""
    doubts: tuple[str, ...] = ()
    """What is wrong with records, in the words of the table `recording`."""
    matched: float | None = None
    """Share of collective calls that found their partners on other ranks; None: no such calls."""
    moments: tuple[tuple[int, ...], ...] = ()
    """Every rank's number, and the times of its first and last event: no two runs share them."""

    @property
    def is_whole(self) -> bool:
        """Whether every rank of the job was recorded."""
        return len(self.ranks) == self.world_size


def read_facts(con: duckdb.DuckDBPyConnection, of_steps: Steps) -> Facts:
    """Read what is known of a run, its work in the steps that count."""
    _, kept, left_out, rows = of_steps
    [known] = con.sql(query("facts")).to_arrow_table().to_pylist()
    steps = None if kept is None else list(kept)
    work: dict[str, dict[str, float]] = {"compute": {}, "operators": {}, "collectives": {}}
    for sort, item, amount in con.execute(query("work"), {"steps": steps}).fetchall():
        work[sort][item] = amount
    arithmetic = ask(con, "op_work", "arithmetic", per="step").to_pydict()
    lists = {name: tuple(of) for name, of in known.items() if isinstance(of, list)}
    told: dict[str, Any] = {
        **known,
        **lists,
        "settings": tuple((each["name"], each["value"]) for each in known["settings"]),
        "step_sources": () if kept is None else lists["step_sources"],
        "tick_ns": known["tick_ns"] or 1,
        "moments": tuple(map(tuple, known["moments"])),
        **work,
    }
    return Facts(
        timeline="gpu" if all(rows["gpu"].to_pylist()) else "cpu",
        steps_counted=len(kept or ()),
        steps_marked=len(kept or ()) + len(left_out),
        arithmetic=tuple(arithmetic["dtype"]),
        step_flops=next(iter(arithmetic["step_flops"]), None),
        **told,
    )
