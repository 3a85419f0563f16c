"""What of a timeline a finding is about: shown there, with all else drawn faintly."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """The sort of thing, and which of it."""

    kind: str
    """'gaps' of a cause, 'ops' of a category, 'waits', 'transfers', or whole 'steps'."""
    which: str = ""


SUBJECTS = {
    **{
        rule: Subject("gaps", cause)
        for rule, cause in {
            "allocator": "allocator",
            "compilation": "compilation",
            "data_bound": "data_loading",
            "device_delay": "device_delay",
            "launch_bound": "launch_bound",
            "module_loading": "module_loading",
            "profiler_overhead": "profiler_overhead",
            "sync_bound": "sync",
            "unexplained_idle": "unknown",
        }.items()
    },
    **dict.fromkeys(("compute_bound", "slow_kernels"), Subject("ops", "compute")),
    **dict.fromkeys(
        ("exposed_copies", "pageable_copies", "unified_memory"), Subject("ops", "memory")
    ),
    **dict.fromkeys(
        ("imbalance", "pipeline_wait", "straggler", "unequal_stages", "uneven_work"),
        Subject("waits"),
    ),
    **dict.fromkeys(
        (
            "communication_bound",
            "long_tail",
            "poor_overlap",
            "slow_link",
            "small_collectives",
            "uneven_exchange",
        ),
        Subject("transfers"),
    ),
    **dict.fromkeys(("one_off_stall", "unsteady_steps"), Subject("steps")),
}
"""By rule; a rule that is about nothing in particular has none."""
