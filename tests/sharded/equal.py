"""Whether two runs hold the same and answer the same."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import traceweave
from traceweave import analyses
from traceweave.store.schema import public_relations

RELATIVE = 1e-12
"""Sums of floats depend on the order of what is summed."""


def differing_tables(one: traceweave.Run, other: traceweave.Run) -> list[str]:
    """Name the public relations whose rows are not the same."""
    return [
        relation.name
        for relation in public_relations()
        if not same_rows(*(rows(run.stream(f"FROM {relation.name}")) for run in (one, other)))
    ]


def differing_answers(one: traceweave.Run, other: traceweave.Run) -> list[str]:
    """Name the analyses whose rows are not the same."""
    found = []
    for analysis in analyses.catalog():
        answers = [asked(run, analysis.name) for run in (one, other)]
        if isinstance(answers[0], str) or isinstance(answers[1], str):
            if answers[0] != answers[1]:
                found.append(analysis.name)
        elif not same_rows(*answers):
            found.append(analysis.name)
    return found


def asked(run: traceweave.Run, name: str) -> list[tuple[Any, ...]] | str:
    try:
        return rows(run.stream_analysis(name))
    except traceweave.TraceweaveError as error:
        return str(error)


def rows(reader: Any) -> list[tuple[Any, ...]]:
    table = reader.read_all()
    columns = [column.to_pylist() for column in table.itercolumns()]
    return list(zip(*columns, strict=True)) if columns else []


def same_rows(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    """Tell whether both have the same rows, each as often."""
    left = Counter(map(_frozen, one))
    right = Counter(map(_frozen, other))
    alone, also = list((left - right).elements()), list((right - left).elements())
    alone.sort(key=_key)
    also.sort(key=_key)
    return len(alone) == len(also) and all(map(_close, alone, also))


def _frozen(row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(str(v) if isinstance(v, list | dict) else v for v in row)


def _key(row: tuple[Any, ...]) -> list[str]:
    return [f"{v:.9e}" if isinstance(v, float) else str(v) for v in row]


def _close(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        a == b
        or (
            isinstance(a, float)
            and isinstance(b, float)
            and (math.isclose(a, b, rel_tol=RELATIVE) or (math.isnan(a) and math.isnan(b)))
        )
        for a, b in zip(one, other, strict=True)
    )
