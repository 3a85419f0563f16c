"""Numbers in the sentences of analyses: functions of SQL that write as `words` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import duckdb

from traceweave import words


@dataclass(frozen=True)
class Writer:
    """A function that SQL can call, which returns text; NULL if an argument is NULL."""

    function: Callable[..., str]
    takes: tuple[str, ...]
    """SQL type of each parameter."""


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "tw_time": Writer(lambda ns: words.duration(ns), ("DOUBLE",)),
        "tw_size": Writer(lambda bytes_: words.size(bytes_), ("DOUBLE",)),
        "tw_digits": Writer(lambda value: words.number(value), ("DOUBLE",)),
        "tw_percent": Writer(lambda share: words.percent(share), ("DOUBLE",)),
        "tw_many": Writer(lambda count, noun: words.plural(count, noun), ("HUGEINT", "VARCHAR")),
        "tw_about": Writer(lambda mean, noun: words.about(mean, noun), ("DOUBLE", "VARCHAR")),
        "tw_few": Writer(lambda count, noun: words.few(count, noun), ("HUGEINT", "VARCHAR")),
        "tw_shortened": Writer(lambda name: words.shortened(name), ("VARCHAR",)),
        "tw_subject": Writer(
            lambda ranks, one, many: words.subject(ranks, one, many),
            ("BIGINT[]", "VARCHAR", "VARCHAR"),
        ),
        "tw_ranks": Writer(lambda ranks: _named("rank", ranks), ("BIGINT[]",)),
        "tw_steps": Writer(lambda steps: _named("step", steps), ("BIGINT[]",)),
    }
)
"""By the name that statements use. One call costs microseconds: they are for sentences, of which
an analysis has a few, not for columns of events."""


def _named(noun: str, numbers: Sequence[int | None]) -> str:
    return words.named(noun, [number for number in numbers if number is not None])


def create_writer(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Create one of WRITERS in `con`, which has none of that name."""
    writer = WRITERS[name]
    con.create_function(name, writer.function, list(writer.takes), "VARCHAR", side_effects=False)
