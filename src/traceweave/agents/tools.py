"""What an agent can ask. Each tool opens the run, asks, and closes it: runs may be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from traceweave import analyses, api
from traceweave.agents.answers import MOST_ROWS, Answer, answer, first_of_each, some_of
from traceweave.agents.runs import Runs
from traceweave.analyses.blocks import following
from traceweave.errors import UsageError, suggest
from traceweave.store.database import open_database, shared_mib, time_limit
from traceweave.store.schema import public_relations

_WIDTH = 100
"""Characters to a line of a description."""


class Tools:
    """The tools: every public method is one, its docstring is what the model is told of it."""

    def __init__(self, runs: Runs, time_limit_s: float) -> None:
        self._runs = runs
        self._time_limit_s = time_limit_s

    def list_runs(self) -> Answer:
        """List the runs that can be opened, newest first. Other tools take a name of this list."""
        return {"runs": self._runs.newest()}

    def open_run(self, run: str) -> Answer:
        """Overview of a run: ranks, hosts, GPUs, steps, clock quality, files, warnings.

        Read the warnings before trusting a number. The same as `traceweave info --format json`.
        """
        with self._open(run) as opened:
            overview = asdict(opened.info())
        return {
            name: value[:MOST_ROWS] if isinstance(value, tuple) else value
            for name, value in overview.items()
        } | {"ranks_in_all": len(overview["ranks"])}

    def health(self, run: str) -> Answer:
        """The run on one screen: step time and what it is made of, the costliest problems, fixes.

        Ask this first.
        """
        return self.analyze(run, "health")

    def findings(self, run: str) -> Answer:
        """Problems of a run, most severe first, each with title, cost, evidence, advice, and proof.

        `cost_ns` is what the mean step gains if this alone is fixed, where `cost_is` replayed; else
        at most that, and `note` says where other findings claim a part of what `scenario` gains by
        `what_if`. Costs do not add up (ask the analysis `fixes`). `proof` names the analysis whose
        rows show it. `next` is the tool to ask then, with its arguments.
        """
        found = self.analyze(run, "findings")
        for row in found["rows"]:
            tool, of = following(row)
            given = {"scenarios": [of]} if tool == "what_if" else {"name": of}
            row["next"] = {tool: {"run": run, **given}}
        return found

    def compare(self, base: str, new: str, table: str | None = None, skip: int = 0) -> Answer:
        """What changed from run `base` to run `new`: whether they can be compared, and where.

        Read `comparability` first: `verdict` is given for runs that are not comparable, too.
        Differences are new minus base; `words` say it in sentences. At most 20 rows of every table,
        largest changes first; ask for one that `more_rows_in` names by `table`, and from there with
        `skip`. The same as `traceweave compare --format json`.
        """
        with self._open(base) as first, self._open(new) as second:
            compared = api.compare(first, second)
        found = compared.to_dict()
        tables = found.pop("tables")
        told = {key: found.pop(key) for key in ("comparability", "verdict", "words")}
        if table is not None:
            rows = compared.table(table).to_pylist()
            told["comparability"].pop("facts")
            return {**told, "table": table, **some_of(rows, _natural(skip))}
        shown, more = first_of_each(tables)
        return {**told, **found, "more_rows_in": more, "tables": shown}

    def list_analyses(self) -> Answer:
        """List the analyses that `analyze` runs: name, topic, question it answers, parameters."""
        return {"analyses": analyses.catalog_rows()}

    def describe(self, name: str) -> str:
        """Say what an analysis, table or view means, column by column, with units and caveats."""
        for analysis in analyses.catalog():
            if analysis.name == name:
                return analyses.analysis_text(analysis, lambda p: f"{p.name}={p.default}", _WIDTH)
        for relation in public_relations():
            if relation.name == name:
                columns = (f"    {c.name}  {c.type}: {c.meaning}" for c in relation.columns)
                return "\n".join([f"{name}: {relation.meaning}", "Columns", *columns])
        known = [a.name for a in analyses.catalog()] + [r.name for r in public_relations()]
        hint = (
            suggest(name, known) or "; list_analyses and the resource traceweave://schema have all"
        )
        raise UsageError(f"no such analysis or table: {name!r}{hint}")

    def analyze(
        self, run: str, name: str, parameters: dict[str, Any] | None = None, skip: int = 0
    ) -> Answer:
        """Rows of an analysis; `list_analyses` has the names, `describe` parameters and columns.

        At most 200 rows at a time; where `more_rows` is true ask again with `skip`. Names of
        columns end in their unit; times are integer nanoseconds. The same rows as `traceweave
        analyze NAME --format json`.
        """
        _known(name)
        with self._open(run) as opened:
            return answer(opened.stream_analysis(name, **(parameters or {})), _natural(skip))

    def query(self, run: str, sql: str, skip: int = 0) -> Answer:
        """Rows of a query in DuckDB's SQL over the run's tables; the resource traceweave://schema
        has them, `describe` tells of one.

        Analyses are table functions in it: `FROM gaps(min_gap_ns := 100000)`. Read-only, without
        access to files. At most 200 rows at a time: aggregate, or ask again with `skip` and an
        ORDER BY.
        """
        with self._open(run) as opened:
            return answer(opened.stream(sql), _natural(skip))

    def what_if(self, run: str, scenarios: list[str], by: str = "scenario") -> Answer:
        """Replay the run as if something were otherwise, and predict the step time.

        A scenario is KEY=VALUE pairs: which work (rank= step= kind= class= op= group= name= module=
        bytes=; kinds are compute, transfer, launch, data_loading, sync, copy, device_delay) and one
        change (times= like=median|fastest gbps= alpha_us= bucket_mb= prefetch= overlap=full
        wait=none contention=none), such as "rank=3 kind=compute like=median". `by` is scenario,
        rank, or path (what the critical path is then made of).
        """
        with self._open(run) as opened:
            return answer(opened.stream_what_if(*scenarios, by=by))

    @contextmanager
    def _open(self, name: str) -> Iterator[api.Run]:
        """Yield a run, whose SQL is interrupted when the time is over."""
        path = self._runs.find(name)
        with (
            api.Run[Any](path, open_database(path, most_mib=shared_mib())) as run,
            time_limit(run.con, self._time_limit_s),
        ):
            yield run


def _known(name: str) -> None:
    """Refuse what is no analysis, so also the name of a file."""
    known = [analysis.name for analysis in analyses.catalog()]
    if name not in known:
        hint = suggest(name, known) or ";"
        raise UsageError(f"no such analysis: {name!r}{hint} list_analyses has all")


def _natural(skip: int) -> int:
    if skip < 0:
        raise UsageError(f"skip is a number of rows; it cannot be {skip}")
    return skip
