"""`python -m traceweave` is the command `traceweave`."""

import sys

from traceweave.cli import main

sys.exit(main())
