"""Kineto: the Chrome-trace JSON that PyTorch Profiler writes (torch 1.8 to 2.15; NVIDIA, AMD, CPU,
MTIA).
"""

from traceweave.sources.kineto.first_steps import steps
from traceweave.sources.kineto.load import load, load_together
from traceweave.sources.kineto.probe import probe, recognize

__all__ = ["load", "load_together", "probe", "recognize", "steps"]
