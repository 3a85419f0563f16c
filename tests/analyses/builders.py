"""Tiny runs, written row by row, for analyses whose answers are worked out by hand."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from typing import Any
from unittest.mock import ANY

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.told import Case
from traceweave import analyses
from traceweave.analyses import common, question, rules
from traceweave.analyses.catalog import library
from traceweave.analyses.parsed import parsed
from traceweave.analyses.rules import Rule
from traceweave.analyses.runner import prepare
from traceweave.store.database import asked_of

Interval = tuple[int, int]
Span = tuple[float, float]
"""An interval in units of the builder."""
Ask = Callable[..., list[dict[str, Any]]]


@dataclass
class Builder:
    """Writes rows of the base tables; times are ns on the common clock unless a clock says else,
    those of ops, steps and collectives of `unit` ns each.

    Rows are written all at once when `con` is asked for: one by one they take ten times as long."""

    _con: Connection
    unit: int = 1
    _ids: count[int] = field(default_factory=lambda: count(1))
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _calls: dict[int | None, dict[str, Any]] = field(default_factory=dict)

    @property
    def con(self) -> Connection:
        """The database with all rows so far."""
        self.write()
        return self._con

    def write(self) -> None:
        """Write the rows so far, for who has the database from elsewhere."""
        for table, rows in self._rows.items():
            names = list(dict.fromkeys(name for row in rows for name in row))
            marks = f"({', '.join('?' * len(names))})"
            self._con.execute(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([marks] * len(rows))}",
                [row.get(name) for row in rows for name in names],
            )
        self._rows.clear()

    def rank(
        self, rank: int, residual_ns: int | None = 0, offset_ns: int = 0, drift_ppm: float = 0.0
    ) -> None:
        """A rank with its clock row; residual None: a clock without anchors."""
        self._insert(
            "base.rank_sources", rank=rank, source_id=rank, rank_source="test", format="kineto",
            first_local_ns=0, last_local_ns=0,
        )  # fmt: skip
        self._insert(
            "clocks", rank=rank, reference_rank=0, offset_ns=offset_ns, drift_ppm=drift_ppm,
            reference_local_ns=0, residual_p95_ns=residual_ns,
            anchors=0 if residual_ns is None else 10, method="test",
            status="wall clock" if residual_ns is None else "aligned",
        )  # fmt: skip

    def ranks(self, count: int, residual_ns: int | None = 0) -> None:
        """So many ranks, numbered from 0."""
        for rank in range(count):
            self.rank(rank, residual_ns)

    def world(self, count: int, residual_ns: int | None = 0) -> None:
        """So many ranks, and group 0 of all of them."""
        self.ranks(count, residual_ns)
        self.group(0, list(range(count)))

    def step(self, rank: int, step: int, host: Span, device: Span | None = None) -> None:
        """A step with its range on the host and, if it has GPU ops, its device window."""
        host, device = self._ns(host), device and self._ns(device)
        self._insert(
            "base.steps", rank=rank, step=step, source_id=rank, start_local_ns=host[0],
            duration_ns=host[1] - host[0], device_start_local_ns=device and device[0],
            device_end_local_ns=device and device[1], source="ProfilerStep",
        )  # fmt: skip

    def gpu(
        self,
        rank: int,
        at: Span,
        category: str = "compute",
        name: str = "kernel",
        stream: int = 7,
        device: int = 0,
        launch: int | None = None,
        class_: str = "other",
        **more: Any,
    ) -> int:
        """A GPU op; `more` are further columns; returns its op_id."""
        at = self._ns(at)
        op_id = next(self._ids)
        columns: dict[str, Any] = {
            "rank": rank, "op_id": op_id, "source_id": rank,
            "kind": "memcpy" if category == "memory" else "kernel", "category": category,
            "class": class_, "name": name, "device": device, "stream": stream,
            "start_local_ns": at[0], "duration_ns": at[1] - at[0], "launch_op_id": launch,
        }  # fmt: skip
        self._insert("base.gpu_ops", **(columns | self._calls.get(launch, {}) | more))
        return op_id

    def host(
        self,
        rank: int,
        at: Span,
        name: str,
        kind: str = "op",
        depth: int | None = 0,
        tid: int = 1,
        **more: Any,
    ) -> int:
        """A range on a host thread; `more` are further columns; returns its op_id."""
        at = self._ns(at)
        op_id = next(self._ids)
        self._insert(
            "base.host_ops",
            rank=rank,
            op_id=op_id,
            source_id=rank,
            kind=kind,
            name=name,
            pid=100,
            tid=tid,
            start_local_ns=at[0],
            duration_ns=at[1] - at[0],
            depth=depth,
            arguments_hash=_arguments_hash(more.get("args")) if kind == "op" else None,
            **more,
        )
        self._calls[op_id] = {
            "launch_start_local_ns": at[0], "launch_duration_ns": at[1] - at[0], "launch_pid": 100,
            "launch_tid": tid, "launch_call": name,
        }  # fmt: skip
        return op_id

    def launch(self, rank: int, at: Span, tid: int = 1, **more: Any) -> int:
        """A kernel launch call; `more` are further columns; returns its op_id."""
        return self.host(rank, at, "cudaLaunchKernel", "runtime", 9, tid, **more)

    def group(self, group_id: int, ranks: list[int], **more: Any) -> None:
        """A process group; `more` are other values of its columns."""
        columns: dict[str, Any] = {
            "group_id": group_id, "name": str(group_id), "size": len(ranks), "ranks": ranks,
            "role": "unknown", "role_source": "test", "membership": "stated",
        }  # fmt: skip
        self._insert("groups", **(columns | more))

    def collective(
        self,
        at: dict[int, Span],
        op: str = "all_reduce",
        group_id: int | None = 0,
        bytes_: int | None = 1024,
        step: int | None = None,
        matched: bool = True,
        each: dict[int, dict[str, Any]] | None = None,
    ) -> None:
        """One operation on the ranks of `at`, without kernels; matched over them unless said.

        `each` has further columns of base.collective_calls by rank."""
        collective_id = next(self._ids) if matched else None
        for rank, (start, end) in ((rank, self._ns(span)) for rank, span in at.items()):
            call_id = next(self._ids)
            columns: dict[str, Any] = {
                "call_id": call_id, "rank": rank, "source_id": rank, "gpu_op_id": call_id, "op": op,
                "bytes": bytes_, "start_local_ns": start, "duration_ns": end - start, "step": step,
                "evidence": "metadata",
            }  # fmt: skip
            more = each.get(rank, {}) if each else {}
            self._insert("base.collective_calls", **(columns | more))
            self._insert(
                "base.matches", call_id=call_id, group_id=group_id, collective_id=collective_id,
                match="seq" if matched else "unmatched",
            )  # fmt: skip

    def sql(self, statement: str) -> None:
        """Change the rows so far."""
        self.con.execute(statement)

    def _ns(self, at: Span) -> Interval:
        start, end = at
        return round(start * self.unit), round(end * self.unit)

    def _insert(self, table: str, **values: Any) -> None:
        self._rows.setdefault(table, []).append(values)


def _arguments_hash(args: str | None) -> int | None:
    """As the loader: equal for equal arguments, None where none are recorded."""
    recorded = json.loads(args or "{}")
    names = ("Input Dims", "Input type", "Concrete Inputs", "kernel_flop", "kernel_num_gb")
    values = [recorded.get(name) for name in names]
    return None if values == [None] * len(names) else zlib.crc32(json.dumps(values).encode())


def rows(con: Connection, name: str, **params: object) -> list[dict[str, Any]]:
    """Return the whole result of an analysis, one dictionary per row.

    As analyses.run does, but for its relation: DuckDB plans the statement of one twice."""
    analysis = analyses.find(name)
    with unchanging(con):
        cursor = con.execute(parsed(con, prepare(con, analysis, analysis.bind(params))))
        columns = [column for column, *_ in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def told(con: Connection, name: str, columns: str, **params: object) -> list[tuple[Any, ...]]:
    """Return some columns, named one after the other, of all rows of an analysis."""
    return [tuple(row[column] for column in columns.split()) for row in rows(con, name, **params)]


class _Some(dict[str, Rule]):
    """Rules by name, of which some are asked."""


@contextmanager
def only(*names: str) -> Iterator[None]:
    """Have `findings` ask some rules, which takes a quarter of the time. What it answers of a run
    that was opened to be read is kept: ask one that no other test has."""
    asked = tuple(rule for rule in rules() if rule.name in names)
    assert len(asked) == len(names)
    assert analyses.find("findings").parameters  # of all rules
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library(), "rules", _Some(library().rules))
        patch.setattr(_Some, "values", lambda _: asked)
        yield


def found_by(con: Connection, *names: str, **params: object) -> dict[str, dict[str, Any]]:
    """Return what some rules find, by rule."""
    with only(*names):
        return {row["rule"]: row for row in rows(con, "findings", **params)}


@contextmanager
def unchanging(con: Connection) -> Iterator[None]:
    """Compute once what questions have in common, as in the runs of users: nothing is written
    within; the next rows may differ."""
    if question.asked_of is not asked_of or asked_of(con)[1]:  # within another, or read-only
        yield
        return
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(question, "asked_of", lambda con: (asked_of(con)[0], True))
            yield
    finally:
        common.forget(con)


@dataclass(eq=False)
class Like:
    """A text of which only this is said; `...` stands for what else is there."""

    text: str

    def __eq__(self, other: object) -> bool:
        pattern = ".*".join(re.escape(part) for part in self.text.split("..."))
        return re.fullmatch(pattern, str(other), re.S) is not None


class Unlike(Like):
    """A text that is not like this."""

    def __eq__(self, other: object) -> bool:
        return not super().__eq__(other)


TEXTS = {"like": Like, "unlike": Unlike, "approx": pytest.approx, "ANY": ANY}


def words_of(build: Builder) -> dict[str, Any]:
    """Return what cases have by name: public methods, and values of which only a part is told."""
    public = [name for name in dir(type(build)) if not name.startswith("_") and name != "con"]
    methods = {name: getattr(build, name) for name in public}
    return methods | TEXTS


def check(build: Builder, case: Case, ask: Ask = rows, **names: Any) -> None:
    """Write the rows of a case by methods of `build`, and compare what is answered of them.

    `? ANALYSIS COLUMN PARAMETER=VALUE` asks for columns of an analysis, or with * for all, `? RULE
    RULE: COLUMN` for those of findings, with their own bounds as costs unless `replay_ops` is said:
    test_fixes.py has those replayed. Of one column, all values are one row. `? first ANALYSIS` asks
    for one row alone, `? unordered ANALYSIS` for rows in the order of what is told of them."""
    known = names | words_of(build)
    case.given(known)
    ask_once = cache(partial(ask, build.con))
    rules = {name for query, _ in case.asked for name in query.rpartition(": ")[0].split()}
    found_once = cache(partial(found_by, build.con, *rules))

    def answer(query: str) -> list[tuple[Any, ...]]:
        named, colon, told_of = query.partition(": ")
        how, *words = ["", "", *told_of.split()] if colon else query.split()
        if how not in ("", "first", "unordered"):
            how, words = "", [how, *words]
        params = dict(word.split("=") for word in words if "=" in word)
        if colon:
            found = found_once(**({"replay_ops": 0} | params))
            got = [found[name] for name in found if name in named.split()]
        else:
            got = ask_once(words[0], **params)[: 1 if how == "first" else None]
        columns = [word for word in words[1:] if "=" not in word]
        if len(columns) == 1 and columns != ["*"]:
            return [tuple(row[columns[0]] for row in got)] if got else []
        table = [tuple(row[of] for of in (row if columns == ["*"] else columns)) for row in got]
        if how == "unordered":
            table.sort(key=lambda row: [(value is None, value) for value in row])
        return table

    with unchanging(build.con):
        case.holds(answer, known)
