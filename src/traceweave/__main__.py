"""`python -m traceweave` is the command `traceweave`."""

import sys

from traceweave.cli import main

if __name__ == "__main__":  # Dask's workers import it under another name
    sys.exit(main())
