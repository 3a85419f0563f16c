"""What cannot be simulated."""

from __future__ import annotations


class SimulationError(ValueError):
    """A run that was asked for and cannot be; the message is one line for a person."""
