"""Flight recorder: the dumps that torch's process groups leave of their last collectives (torch 2.3
to 2.15; NCCL and gloo; pickle and JSON), one file per rank.
"""

from traceweave.sources.flight_recorder.load import load
from traceweave.sources.flight_recorder.probe import probe, recognize

__all__ = ["load", "probe", "recognize"]
