"""What names mean, as data: kernels, operators, calls and ranges of the host."""

from traceweave.vocabulary.spelling import Spelling, spell
from traceweave.vocabulary.tables import Row, Table, answered, tables

__all__ = ["Row", "Spelling", "Table", "answered", "spell", "tables"]
