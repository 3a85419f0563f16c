"""The verdict on the records of every rank and step: what they cannot support is unknown.

Loaders say what is doubtful in their file (base.doubts); here that becomes the table `recording`,
and what is unknown is left out of what all numbers are made of: a step is no step of its rank, a
rank without steps that count is not on the timeline (the view device_ops).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import duckdb

from traceweave.ingestion.beside_each_other import (
    EXTRAS,
    doubt_beside_each_other,
    forget_beside_each_other,
)
from traceweave.ingestion.load import Outcome
from traceweave.store.rows import insert_rows
from traceweave.words import count, doubts_said, duration, named, percent, plural


class _Kind(NamedTuple):
    """What is said of a kind of doubt."""

    unknown: str
    """What is wrong where the steps, or the rank, are unknown."""
    counts: str
    """What is wrong where they count nevertheless."""
    advice: str


def _kinds() -> dict[str, _Kind]:
    text = resources.files(__package__).joinpath("doubts.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {kind: _Kind(*said) for kind, *said in rows}


_KINDS = _kinds()

_COUNTED = frozenset(
    kind for kind, of in _KINDS.items() if "{share}" in of.counts or "{of}" in of.unknown
)
"""Those whose counts are of records."""

# what came after the last step with work on the GPU lost its own
_CUT = """
INSERT INTO base.doubts BY NAME
WITH ended AS (
    SELECT
        rank, source_id,
        coalesce(
            max(start_local_ns) FILTER (device_start_local_ns IS NOT NULL), max(start_local_ns)
        ) AS from_ns
    FROM base.steps
    WHERE list_contains($sources, source_id)
    GROUP BY rank, source_id
),
cut AS (
    SELECT rank, source_id, step
    FROM base.steps AS s JOIN ended AS e USING (rank, source_id)
    WHERE s.start_local_ns >= e.from_ns
)
SELECT
    rank, source_id, step, 'cut step' AS kind, 0 AS count, 0 AS total,
    (SELECT count(*) FROM base.steps) > (SELECT count(*) FROM cut) AS is_unknown
FROM cut
"""

# of launches, or of tasks in a form that is not read
_NO_DEVICE = """
INSERT INTO base.doubts BY NAME
SELECT
    rank, source_id, NULL AS step,
    CASE WHEN unread_tasks > 0 THEN 'unread tasks' ELSE 'no device records' END AS kind,
    coalesce(unread_tasks, launches) AS count, count AS total, TRUE AS is_unknown
FROM base.rank_sources
WHERE coalesce(launches, 0) + coalesce(unread_tasks, 0) > 0
    AND rank NOT IN (
        SELECT rank FROM base.doubts WHERE kind IN ('no device records', 'unread tasks')
    )
"""

# whatever else a profiler's files hold
_NOTHING = """
INSERT INTO base.doubts BY NAME
SELECT
    rank, source_id, NULL AS step,
    CASE
        WHEN list_contains($damaged, source_id) THEN 'nothing left' ELSE 'nothing to judge'
    END AS kind,
    0 AS count, 0 AS total, TRUE AS is_unknown
FROM base.rank_sources
WHERE format IN ('kineto', 'nsys')
    AND NOT EXISTS (FROM base.gpu_ops WHERE rank IS NOT NULL)
    AND NOT EXISTS (FROM base.host_ops WHERE rank IS NOT NULL AND kind = 'op')
    AND NOT EXISTS (FROM base.collective_calls)
    AND rank NOT IN (SELECT rank FROM base.doubts WHERE is_unknown)
"""

_DAMAGED_BEFORE = "SELECT source_id FROM sources WHERE status = 'partial'"

# a rank without a step that counts is unknown as a whole
_DOUBTS = """
WITH stepped AS (
    SELECT rank, bool_or(d.rank IS NULL) AS has_known
    FROM base.steps AS s
    LEFT JOIN (SELECT DISTINCT rank, step FROM base.doubts WHERE is_unknown) AS d USING (rank, step)
    GROUP BY rank
),
-- a long operation of which all is waiting for ranks that came later, but for what is no doubt
explained AS (
    SELECT d.rank
    FROM base.doubts AS d
    JOIN collectives AS k ON k.rank = d.rank AND k.duration_ns = d.count
    JOIN collective_instances AS i USING (collective_id)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN awaits_others(i.op, i.root, k.rank)
            THEN least(greatest(i.awaited_ns - k.start_ns, 0), k.duration_ns) ELSE 0 END AS ns
    ) AS w
    WHERE d.kind = 'one op' AND i.resolution_ns IS NOT NULL
        AND 2 * (d.count - w.ns) <= d.total - w.ns
),
judged AS (
    SELECT
        d.* EXCLUDE (is_unknown),
        d.kind IN ('no device records', 'unread tasks', 'nothing to judge', 'nothing left')
            AS of_all,
        d.is_unknown AND (d.step IS NOT NULL OR s.rank IS NULL OR of_all) AS is_unknown,
        d.is_unknown AND d.kind <> 'cut step'
            AND (of_all OR NOT coalesce(s.has_known, FALSE)) AS of_rank
    FROM base.doubts AS d LEFT JOIN stepped AS s USING (rank)
    -- what a file that ends early lacks is said once
    WHERE NOT (kind = 'lost records' AND EXISTS (
        FROM base.doubts AS c
        WHERE c.kind = 'cut step' AND c.is_unknown AND c.rank = d.rank AND c.step = d.step
    )) AND NOT (kind = 'one op' AND d.rank IN (FROM explained))
)
SELECT
    rank, source_id, kind, is_unknown, bool_or(of_rank) AS of_rank,
    coalesce(list(DISTINCT step ORDER BY step) FILTER (step IS NOT NULL), []) AS steps,
    CAST(sum(count) AS BIGINT) AS count, CAST(sum(total) AS BIGINT) AS total
FROM judged
GROUP BY rank, source_id, kind, is_unknown
ORDER BY rank, source_id, kind, is_unknown
"""

_LEAVE_OUT = """
DELETE FROM base.steps WHERE (rank, step) IN (SELECT (rank, step) FROM base.doubts WHERE is_unknown)
"""


# what only all ranks together show to be unknown may be known once files are added
_BACK = """
CREATE TABLE IF NOT EXISTS base.steps_left_out AS FROM base.steps LIMIT 0;
INSERT INTO base.steps BY NAME FROM base.steps_left_out;
DELETE FROM base.steps_left_out;
"""

_KEEP = """
INSERT INTO base.steps_left_out BY NAME
FROM base.steps WHERE (rank, step) IN (SELECT (rank, step) FROM base.doubts WHERE is_unknown)
"""


def leave_out_unknown(con: duckdb.DuckDBPyConnection, outcomes: Sequence[Outcome]) -> None:
    """Take the steps that files show to be unknown out of those of their ranks; what only all ranks
    together showed is there again, to be judged anew.
    """
    forget_beside_each_other(con)
    con.execute(_BACK)
    cut = [o.source_id for o in outcomes if o.loaded is not None and o.loaded.cut_short]
    if cut:
        con.execute(_CUT, {"sources": cut})
    con.execute(_NO_DEVICE)
    damaged = [o.source_id for o in outcomes if o.status == "partial"]
    damaged += [n for (n,) in con.execute(_DAMAGED_BEFORE).fetchall()]
    con.execute("DELETE FROM base.doubts WHERE kind IN ('nothing to judge', 'nothing left')")
    con.execute(_NOTHING, {"damaged": damaged})
    con.execute(_LEAVE_OUT)


def judge_recording(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Fill the table `recording` of a woven run, leave out what only all ranks together show to be
    unknown, and return what is wrong: a sentence for each kind of doubt.
    """
    doubt_beside_each_other(con)
    # planned in a hundredth of a small run's time, also where there is nothing to judge
    doubted = con.execute("SELECT 1 FROM base.doubts LIMIT 1").fetchall()
    rows = [_judged(*row) for row in con.execute(_DOUBTS).fetchall()] if doubted else []
    con.execute("DELETE FROM recording")
    insert_rows(con, "recording", rows)
    con.execute(_KEEP)
    con.execute(_LEAVE_OUT)
    _write_issues(con)
    return tuple(doubts_said(rows))


def _judged(
    rank: int,
    source_id: int,
    kind: str,
    is_unknown: bool,
    of_rank: bool,
    steps: list[int],
    events: int,
    total: int,
) -> dict[str, object]:
    of = _KINDS[kind]
    missing = [extra for bit, extra in enumerate(EXTRAS) if events >> bit & 1]
    where = named("step", steps) if steps else "its recording"
    message = (of.unknown if is_unknown else of.counts).format(
        share=f"{count(events)} of {count(total)}",
        steps=where,
        of=plural(events, *(("task",) if kind == "unread tasks" else ("launch", "launches"))),
        time=duration(events),
        percent=percent(events / total if total else None),
        missing=" and ".join(missing),
    )
    if of_rank:
        message += ". The rank is unknown, left out of all numbers"
    elif is_unknown:
        are = "This step is" if len(steps) == 1 else "These steps are"
        message += f". {are} unknown, and in no time budget, cost or wait"
    return {
        "rank": rank,
        "source_id": source_id,
        "kind": kind,
        "steps": [] if of_rank else steps,
        "count": events if kind in _COUNTED else None,
        "total": total if kind in _COUNTED else None,
        "is_unknown": is_unknown,
        "message": message,
        "advice": of.advice,
    }


def _write_issues(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "DELETE FROM ingest_issues WHERE list_contains($1, kind) AND source_id IS NOT NULL",
        [list(_KINDS)],
    )
    con.execute(
        "INSERT INTO ingest_issues BY NAME SELECT source_id, kind, coalesce(count, 0) AS count,"
        " format('rank {}', rank) AS example,"
        " message || '; to avoid it, ' || advice AS message FROM recording"
    )
