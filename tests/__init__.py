"""The tests. Several processes of them share the cores, so that BLAS gets no threads of its own, as
in the process of a command (traceweave.__main__)."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
