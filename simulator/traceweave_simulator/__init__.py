"""Distributed training runs that never happened: computed in true time with known clocks,
stragglers and gaps.

Written as the profilers write theirs, so that loaders, alignment and analyses can be tested against
the truth:

    run = simulate(Config(ranks=4, straggler={2: 400_000}, clock_offset_ns=1_000_000))
    write_kineto(run, "traces")
    Truth(run).breakdown("device")
"""

from __future__ import annotations

from traceweave_simulator.config import Clock, Config, Gap
from traceweave_simulator.kineto_writer import write_kineto
from traceweave_simulator.nsys_writer import write_nsys
from traceweave_simulator.run import Run
from traceweave_simulator.simulation import simulate
from traceweave_simulator.truth import Truth

__all__ = ["Clock", "Config", "Gap", "Run", "Truth", "simulate", "write_kineto", "write_nsys"]
