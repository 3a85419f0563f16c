"""Rows of memory events for hand-worked runs."""

from tests.analyses.builders import Builder


def memory_event(
    build: Builder,
    at: int,
    value: int,
    address: int,
    allocated: int | None = None,
    reserved: int | None = None,
    device: str = "cuda:0",
    rank: int = 0,
) -> None:
    """An allocation, or a release if value is negative, on a rank."""
    build.con.execute(
        "INSERT INTO base.memory_events"
        " SELECT ?, count(*), 0, ?, ?, ?, ?, ?, ?, ?, NULL FROM base.memory_events",
        [rank, device, "alloc" if value > 0 else "free", at, value, address, allocated, reserved],
    )
