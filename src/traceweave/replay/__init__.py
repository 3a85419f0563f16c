"""One dependency graph over all ranks: its critical path, and what steps would take if.

Reads tables only. `rows` asks them; `rank_graph` makes nodes and edges of a rank (`device`,
`streams`, `host` say which), `graph` ties the ranks together; `engine` replays. `changes` applies a
`scenario`: other lengths (`likeness`, `latencies`, `idle`), or other places (`moves`, `buckets`).
`model` answers by `steps` and `path`; `tables` has it as rows.
"""

from __future__ import annotations

from traceweave.replay.answers import WHAT_IF_COLUMNS, check_scenario, verified, what_if
from traceweave.replay.contention import create_contention_table
from traceweave.replay.exposed import create_exposed_tables
from traceweave.replay.hideable import hideable_calls
from traceweave.replay.selections import selected_ops
from traceweave.replay.tables import (
    create_replay_tables,
    create_slowdown_table,
    path_pieces,
    replayed_fixes,
)

__all__ = [
    "WHAT_IF_COLUMNS",
    "check_scenario",
    "create_contention_table",
    "create_exposed_tables",
    "create_replay_tables",
    "create_slowdown_table",
    "hideable_calls",
    "path_pieces",
    "replayed_fixes",
    "selected_ops",
    "verified",
    "what_if",
]
