"""What names mean, as data: kernels, operators, calls and ranges of the host."""

from traceweave.vocabulary.spelling import Spelling, demangled, spell
from traceweave.vocabulary.tables import Row, Table, answered, tables

__all__ = ["Row", "Spelling", "Table", "answered", "demangled", "spell", "tables"]
