"""What names mean, as data: kernels, operators, calls and ranges of the host."""

from traceweave.vocabulary.names_that_fit import fitted, readable, without_namespaces
from traceweave.vocabulary.spelling import Spelling, demangled, spell
from traceweave.vocabulary.tables import Row, Table, names, script, tables, with_names

__all__ = [
    "Row",
    "Spelling",
    "Table",
    "demangled",
    "fitted",
    "names",
    "readable",
    "script",
    "spell",
    "tables",
    "with_names",
    "without_namespaces",
]
