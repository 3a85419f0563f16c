"""Record the same steps on every rank of a job, so that the traces can be compared.

Runs inside the user's job, needs torch (the extra `traceweave-ranks[torch]`) and nothing of the
analyzer.
The recording itself is that of torch.profiler, or of nsys around the job.
"""

from traceweave.capturing.session import capture

__all__ = ["capture"]
