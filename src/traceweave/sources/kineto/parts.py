"""Files into which somebody merged the traces of several ranks: which event is of which process.

Merging tools change the pids, so that viewers show the ranks apart: SGLang's puts '[TP03]' in front
of them, TraceLens' adds a multiple of the rank and names it, others do either by hand. Correlation
ids, streams and device numbers they mostly leave, so that those of different ranks are the same:
nothing may be linked before it is known whose it is. What cannot be told apart is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import duckdb

from traceweave.errors import InputError
from traceweave.sources.model import Process
from traceweave.sources.ranks import ORDER
from traceweave.vocabulary import script
from traceweave.words import folded, plural

_PREFIX = re.compile(
    r"(?:\[+(?P<label>[^\[\]]+)\]+|(?P<rank>rank[ _-]?\d+))[ _:/-]+(?P<pid>.*)", re.I
)
"""In front of a pid: '[TP00-DP01] 1234', 'rank3_pid1234'."""

_RANK = re.compile(r"\brank[ _:#=-]*(\d{1,6})\b", re.I)
"""In a label, or the name of a process: 'RANK 3 - GPU'."""

_AXIS = re.compile(r"\b(TP|PP)-?(\d{1,6})\b", re.I)
"""In SGLang's labels. Other axes run inside of the one of tensor parallelism."""

_SURE = 0.99
"""Share of events that must agree on a process."""

_TOGETHER = (
    "so its events cannot be told apart; give the ranks' own files, or merge them one after the"
    " other with a pid of its own for each process"
)

_PROCESS = r"0*[1-9]\d{0,14}|\[.*|(?i:rank).*"
"""What may be a process's pid: no others but numbers, and what merging makes of them."""

_OWNERS = f"""
WITH kinds AS (
    SELECT cat, kind IN ('runtime', 'driver') AS calls, kind = 'op' AS ops, false AS on_device
    FROM host_categories WHERE kind IN ('runtime', 'driver', 'op')
    UNION ALL SELECT cat, false, false, true FROM device_categories
),
pids AS (
    SELECT
        source_id, pid, bool_or(calls) AS calls, bool_or(ops) AS ops,
        bool_or(on_device) AS on_device
    FROM event_kinds JOIN kinds USING (cat)
    WHERE lane IN ('span', 'mark')
    GROUP BY source_id, pid
    HAVING regexp_full_match(pid, '{_PROCESS}')
)
-- an accelerator's command processor writes calls beside what it runs
SELECT
    source_id, pid, CASE WHEN calls AND (ops OR NOT on_device) THEN 2 ELSE 1 END AS issuing
FROM pids WHERE ops OR (calls AND NOT on_device)
QUALIFY issuing = max(issuing) OVER (PARTITION BY source_id)
    AND count(*) OVER (PARTITION BY source_id, issuing) > 1
"""

_CORRELATED = """
WITH calls AS (
    SELECT pid, part, args->>'correlation' AS id, min(since_base_ns) AS at
    FROM new_events JOIN host_categories USING (cat)
    WHERE source_id = $source_id AND kind IN ('runtime', 'driver') AND args->>'correlation' <> '0'
    GROUP BY ALL
),
device_events AS (
    SELECT
        new_events.rowid AS row_number, pid, part, args->>'correlation' AS id, since_base_ns AS at
    FROM new_events JOIN device_categories USING (cat)
    WHERE source_id = $source_id AND args->>'correlation' <> '0'
)
"""

_LAUNCHED_IN_PART = (
    _CORRELATED
    + """
SELECT count(*) FILTER (WHERE c.at <= d.at + 1000000), count(DISTINCT d.part)
FROM device_events AS d JOIN calls AS c ON d.id = c.id AND d.part = c.part
UNION ALL SELECT count(*), (SELECT count(DISTINCT part) FROM calls)
FROM device_events WHERE id IN (SELECT id FROM calls)
"""
)

_ONLY_CALLERS = (
    _CORRELATED
    + """
SELECT pid, caller, count(*) FROM (
    SELECT d.row_number, d.pid, any_value(c.pid) AS caller
    FROM device_events AS d JOIN calls AS c USING (id)
    GROUP BY d.row_number, d.pid HAVING count(DISTINCT c.pid) = 1
)
GROUP BY pid, caller
"""
)

_EVIDENCE = """
SELECT
    part,
    list(DISTINCT TRY_CAST(args->>'Rank' AS INTEGER)) FILTER (
        WHERE args->>'Rank' IS NOT NULL AND args->>'Collective name' NOT IN (
                -- of these it is the rank of the other side, or of the root
                'send', 'recv', 'broadcast', '_broadcast_oop', 'reduce', '_reduce_oop',
                'gather', 'scatter'
            )
            AND TRY_CAST(args->>'Group size' AS INTEGER) = $world_size
    ),
    list(DISTINCT TRY_CAST(args->>'device' AS INTEGER)) FILTER (WHERE cat = 'kernel')
FROM new_events WHERE source_id = $source_id GROUP BY part ORDER BY part
"""


@dataclass(frozen=True)
class _Pid:
    """What a file has of one pid."""

    pid: str
    on_host: int
    on_device: int
    first_row: int | None
    last_row: int | None
    stated_rank: int | None
    names: list[str | None]

    @property
    def label(self) -> str | None:
        """What says whose it is, on the pid itself or in what is written beside it."""
        if match := _PREFIX.fullmatch(self.pid):
            return match["label"] or match["rank"]
        if self.stated_rank is not None:
            return f"rank {self.stated_rank}"
        ranks = {match[1] for name in self.names if (match := _RANK.search(name or ""))}
        return f"rank {int(ranks.pop())}" if len(ranks) == 1 else None

    @property
    def own(self) -> str:
        """The pid as it was before the label was put in front of it."""
        match = _PREFIX.fullmatch(self.pid)
        return re.sub(r"^pid[ _:-]*", "", match["pid"]) if match else self.pid

    @property
    def number(self) -> int | None:
        """The same as a number."""
        return int(self.own) if re.fullmatch(r"\d{1,18}", self.own) else None


def merged(con: duckdb.DuckDBPyConnection) -> set[int]:
    """Return the files in `event_kinds` in which several processes issue work."""
    return {source_id for source_id, _, _ in con.execute(_OWNERS).fetchall()}


def part_events(
    con: duckdb.DuckDBPyConnection, source_id: int, known: Process, *, damaged: bool
) -> tuple[Process, ...]:
    """Give every event of a file in which several processes issue work its part; return these: what
    is `known` of the file's process, with what tells them apart.

    Raises:
        InputError: nothing tells them apart, or two processes wrote into the file at once.
    """
    found = con.execute(script(__package__, "parts.sql"), {"source_id": source_id}).fetchall()
    pids = [_Pid(*row) for row in found]
    issuing = {pid for source, pid, _ in con.execute(_OWNERS).fetchall() if source == source_id}
    owners = [pid for pid in pids if pid.pid in issuing]
    labels = {owner.label for owner in owners} - {None}
    labelled = len(labels) == len(owners)
    if damaged and not labelled:
        raise InputError(
            f"{_processes(owners)} wrote into it at once: events of one lie inside of those of"
            " another; record again with a file name of its own for each rank"
        )
    part_of = _by_label(pids) if labelled else None
    if part_of is None and _in_turns(con, source_id, owners):
        return _parts(con, source_id, known, owners)
    if part_of is None:
        part_of = _by_pid(con, source_id, pids, owners)
    _store(con, source_id, pids, part_of)
    first_of = {part_of[owner.pid]: owner for owner in reversed(owners)}
    return _parts(con, source_id, known, [owner for _, owner in sorted(first_of.items())])


def _processes(owners: Sequence[_Pid]) -> str:
    shown = ", ".join(owner.pid for owner in owners[:4])
    more = ", ..." if len(owners) > 4 else ""
    return f"{plural(len(owners), 'process', 'processes')} (pids {shown}{more})"


def _by_label(pids: Sequence[_Pid]) -> dict[str, int] | None:
    """The part of each pid, by labels; None where work of the device has none."""
    if any(pid.label is None for pid in pids if pid.on_host or pid.on_device):
        return None
    labels = dict.fromkeys(pid.label for pid in pids if pid.on_host or pid.on_device)
    number = {label: n for n, label in enumerate(labels)}
    return {pid.pid: number.get(pid.label, 0) for pid in pids}


def _in_turns(con: duckdb.DuckDBPyConnection, source_id: int, owners: Sequence[_Pid]) -> bool:
    """Part the events by place, if one process's follow another's: then pids and numbers of
    devices need not differ. Where not all launch what lies there, they do not.
    """
    rows = [(o.first_row or 0, o.last_row or 0) for o in owners]
    if any(last >= first for (_, last), (first, _) in pairwise(rows)):
        return False
    borders = [first for first, _ in rows[1:]]
    con.execute(
        "UPDATE new_events SET part = len(list_filter($borders::BIGINT[], lambda b: b <= rowid))"
        " WHERE source_id = $source_id",
        {"borders": borders, "source_id": source_id},
    )
    (own, active), (known, calling) = con.execute(
        _LAUNCHED_IN_PART, {"source_id": source_id}
    ).fetchall()
    if own >= _SURE * known and (not known or active == calling):
        return True
    con.execute("UPDATE new_events SET part = 0 WHERE source_id = ?", [source_id])
    return False


def _by_pid(
    con: duckdb.DuckDBPyConnection, source_id: int, pids: Sequence[_Pid], owners: Sequence[_Pid]
) -> dict[str, int]:
    """The part of each pid: that of the only process with its correlation ids, or else of the
    process whose pid is so near that both were shifted together.
    """
    number = {owner.pid: n for n, owner in enumerate(owners)}
    callers: dict[str, dict[str, int]] = {}
    for pid, caller, count in con.execute(_ONLY_CALLERS, {"source_id": source_id}).fetchall():
        callers.setdefault(pid, {})[caller] = count
    near = _shifted(pids, owners)
    for pid in pids:
        if pid.pid in number:
            continue
        votes = callers.get(pid.pid, {})
        best = max(votes, key=lambda caller: votes[caller], default=None)
        if best is not None and votes[best] >= max(
            _SURE * sum(votes.values()), 0.5 * pid.on_device
        ):
            number[pid.pid] = number[best]
        elif pid.pid in near:
            number[pid.pid] = number[near[pid.pid]]
        elif pid.on_device or pid.on_host:
            raise InputError(
                f"it holds {_processes(owners)}, and several may have launched what process"
                f" {pid.pid} shows, {_TOGETHER}"
            )
        else:
            number[pid.pid] = 0
    return number


def _shifted(pids: Sequence[_Pid], owners: Sequence[_Pid]) -> dict[str, str]:
    """The process beside each pid, where pids of different ranks lie much further apart."""
    numbers = {pid.pid: int(pid.pid) for pid in pids if re.fullmatch(r"\d{1,18}", pid.pid)}
    others = [p.pid for p in pids if p not in owners and (p.on_device or p.on_host)]
    if any(owner.pid not in numbers for owner in owners) or any(o not in numbers for o in others):
        return {}
    places = sorted(numbers[owner.pid] for owner in owners)
    least = min(b - a for a, b in pairwise(places))
    near = {o: min(owners, key=lambda w: abs(numbers[w.pid] - numbers[o])).pid for o in others}
    apart = max((abs(numbers[o] - numbers[near[o]]) for o in others), default=0)
    return near if 10 * apart < least and len(set(near.values())) == len(owners) else {}


def _store(
    con: duckdb.DuckDBPyConnection,
    source_id: int,
    pids: Sequence[_Pid],
    part_of: Mapping[str, int],
) -> None:
    con.execute(
        "UPDATE new_events SET part = p.part, pid = p.own FROM (SELECT unnest($pids::VARCHAR[])"
        " AS pid, unnest($parts::INTEGER[]) AS part, unnest($own::VARCHAR[]) AS own) AS p"
        " WHERE new_events.source_id = $source_id AND new_events.pid = p.pid",
        {
            "source_id": source_id,
            "pids": [pid.pid for pid in pids],
            "parts": [part_of[pid.pid] for pid in pids],
            "own": [pid.own for pid in pids],
        },
    )


def _parts(
    con: duckdb.DuckDBPyConnection,
    source_id: int,
    known: Process,
    owners: Sequence[_Pid],
) -> tuple[Process, ...]:
    world_size = known.world_size
    evidence = con.execute(_EVIDENCE, {"source_id": source_id, "world_size": world_size}).fetchall()
    said = [_one(ranks) for _, ranks, _ in evidence[: len(owners)]]
    devices = [_one(devices) for _, _, devices in evidence[: len(owners)]]
    numbers = list(range(len(owners)))
    whole = world_size in (None, len(owners))
    ranks, source = next(
        (found, source)
        for found, source in (
            (_ranks_of_labels([owner.label for owner in owners]), "label of the process"),
            (said, "its collectives"),
            (devices if whole and {*devices} == {*numbers} else [], f"{ORDER} devices"),
            (numbers if whole else [], f"{ORDER} processes"),
            ([None] * len(owners), None),
        )
        if found and (source is None or _are_ranks(found, world_size))
    )
    return tuple(
        replace(known, key=n, rank=rank, rank_source=source, pid=owner.number, host=None)
        for n, (owner, rank) in enumerate(zip(owners, ranks, strict=True))
    )


def _one(values: list[int] | None) -> int | None:
    return values[0] if values is not None and len(values) == 1 else None


def _are_ranks(ranks: Sequence[int | None], world_size: int | None) -> bool:
    known = {rank for rank in ranks if rank is not None}
    return len(known) == len(ranks) and (world_size is None or max(known) < world_size)


def _ranks_of_labels(labels: Sequence[str | None]) -> list[int | None]:
    """Ranks that labels name, or that their places on the axes of a job make."""
    texts = [label or "" for label in labels]
    named = [int(match[1]) if (match := _RANK.search(text)) else None for text in texts]
    axes = [{m[1].upper(): int(m[2]) for m in _AXIS.finditer(text)} for text in texts]
    if None not in named or not all("TP" in axis for axis in axes):
        return named
    width = 1 + max(axis["TP"] for axis in axes)
    return [axis["TP"] + width * axis.get("PP", 0) for axis in axes]


def told(parts: Sequence[Process]) -> str:
    """Return the note on a merged file."""
    pids = folded(part.pid for part in parts if part.pid is not None)
    return f"it was merged from {plural(len(parts), 'process', 'processes')} (pids {pids})"
