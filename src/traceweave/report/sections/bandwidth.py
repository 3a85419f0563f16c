"""How fast collectives move their bytes, by size, with the latency and bandwidth behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb

from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Figure, Origin, Section, Table
from traceweave.report.query import Row, analysis_rows
from traceweave.report.selection import first_rows
from traceweave.words import count, duration, plural, rate, size

DRAWN_GROUPS = 6
"""Process groups drawn per operation: those that spend most time in it."""

MOST_ROWS = 200
"""Rows of either table."""

_BANDWIDTH = "traceweave analyze bandwidth run.duckdb"
_FIT = "traceweave analyze alpha_beta run.duckdb"
_FITS = "Latency and bandwidth"


@dataclass(frozen=True)
class Bandwidth:
    """Rows of analyses bandwidth and alpha_beta, and group names."""

    sizes: list[Row]
    fits: list[Row]
    groups: dict[int, str]

    @property
    def measured(self) -> list[Row]:
        """Rows with a bandwidth, by the clocks or without them."""
        return [row for row in self.sizes if _busbw(row) is not None]


def load_bandwidth(con: duckdb.DuckDBPyConnection, groups: dict[int, str]) -> Bandwidth:
    """Read bandwidths by size, and the line fitted to each operation and group."""
    return Bandwidth(analysis_rows(con, "bandwidth"), analysis_rows(con, "alpha_beta"), groups)


def bandwidth_in_words(bandwidth: Bandwidth) -> str:
    """Say in a sentence or two how fast the operation that takes most time moves its bytes."""
    if not bandwidth.measured:
        return ""
    most = max(bandwidth.measured, key=lambda r: (_time(r), -(r["group_id"] or 0), r["bytes"]))
    text = (
        f"Most time goes into {most['op']} of {size(most['bytes'])} in"
        f" {_group(bandwidth, most)}: {rate(_busbw(most))} of bus bandwidth at the median"
    )
    text += "." if most["busbw_p50_gbps"] is not None else ", by the shortest duration of each."
    fit = next((f for f in bandwidth.fits if _key(f) == _key(most)), None)
    if fit is None or fit["beta_gbps"] is None:
        return text
    before = f"{duration(fit['alpha_ns'])} before the first byte and " if fit["alpha_ns"] else ""
    return f"{text} The line through its sizes: {before}{rate(fit['beta_gbps'])} from there on."


def bandwidth_section(bandwidth: Bandwidth, ranks: int) -> Section:
    """Lay out bandwidth by size with the fitted lines; `ranks`: of the whole run."""
    found = bandwidth.measured
    return Section(
        anchor="bandwidth",
        title="Bandwidth of collectives",
        lead=(
            "How fast collectives move bytes once the last rank has arrived. Bus bandwidth makes"
            " operations and group sizes comparable with each other and with the links."
        ),
        notes=(bandwidth_in_words(bandwidth), *_notes(bandwidth)) if found else (),
        figures=(_figure(bandwidth),) if found else (),
        tables=(*_fit_table(bandwidth), _size_table(bandwidth)) if found else (),
        origins=(Origin("Bandwidth by size", _BANDWIDTH), Origin(_FITS, _FIT)),
        empty="" if found else _reason(bandwidth, ranks),
        terms={
            "Latency (alpha)": "what a collective costs before its first byte",
            "Bandwidth (beta)": "bus bandwidth of everything after it; the line in the chart is"
            " where a transfer takes alpha + bytes × factor / beta",
            "Bus bandwidth": "bytes / transfer time, times the factor by which the operation moves"
            " them, as nccl-tests defines it; decimal GB/s",
        },
    )


def _reason(bandwidth: Bandwidth, ranks: int) -> str:
    if not bandwidth.sizes:
        return "No collective was recorded whose bandwidth could be measured."
    told = sorted({row["note"] for row in bandwidth.sizes if row["note"]})
    alone = " Only one rank was recorded." if ranks < 2 else ""
    return f"No bandwidth could be computed: {'; '.join(told)}.{alone}"


def _busbw(row: Row) -> float | None:
    """Return the bandwidth by the common clock; where that cannot tell, without any clock."""
    if not row["measured"] or not row["bytes"]:
        return None
    known: float | None = row["busbw_p50_gbps"] or row["busbw_free_p50_gbps"]
    return known or None


def _time(row: Row) -> int:
    return int(row["instances"] * (row["transfer_p50_ns"] or 0))


def _key(row: Row) -> tuple[str, int]:
    return row["op"], -1 if row["group_id"] is None else row["group_id"]


def _group(bandwidth: Bandwidth, row: Row) -> str:
    name = bandwidth.groups.get(row["group_id"], "no group")
    return f"{name} of {plural(row['ranks'], 'rank')}" if row["ranks"] else name


def _notes(bandwidth: Bandwidth) -> list[str]:
    notes = []
    if lacking := sum(row["incomplete"] for row in bandwidth.measured):
        among = sum(row["measured"] for row in bandwidth.measured)
        notes.append(
            f"{count(lacking)} of {plural(among, 'collective')} lack a rank of their group: waiting"
            " for it counts as transfer, so that the bandwidth was at least this."
        )
    if any(row["busbw_p50_gbps"] is None for row in bandwidth.measured):
        notes.append(
            "Hollow marks: transfers shorter than the clock resolution, measured without a"
            " common clock, by the shortest duration over the ranks. It may include waiting, so"
            " that the bandwidth was at least this."
        )
    without = [fit for fit in bandwidth.fits if fit["beta_gbps"] is None and fit["note"]]
    reasons = {
        reason: sorted({fit["op"] for fit in fits})
        for reason, fits in groupby(
            sorted(without, key=lambda fit: fit["note"]), key=lambda fit: fit["note"]
        )
    }
    notes += [f"No line for {', '.join(ops)}: {reason}." for reason, ops in reasons.items()]
    pairs = {_key(row) for row in bandwidth.measured}
    most = max(sum(op == one for one, _ in pairs) for op in _ops(bandwidth))
    if most > DRAWN_GROUPS:
        notes.append(
            f"Drawn per operation: the {DRAWN_GROUPS} process groups that spend most time in it,"
            f" of up to {count(most)}."
        )
    return notes


def _ops(bandwidth: Bandwidth) -> list[str]:
    """Return the operations, those that take most time first."""
    total: dict[str, int] = {}
    for row in bandwidth.measured:
        total[row["op"]] = total.get(row["op"], 0) + _time(row)
    return sorted(total, key=lambda op: (-total[op], op))


def _figure(bandwidth: Bandwidth) -> Figure:
    ops = _ops(bandwidth)
    chart = {
        "kind": "points",
        "variants": [{"label": op, "series": _series(bandwidth, op)} for op in ops],
    }
    return Figure(
        "bandwidth",
        "Bus bandwidth by size",
        "decimal GB/s, both axes logarithmic",
        "Scatter chart of bus bandwidth by size, with the fitted line."
        f" {bandwidth_in_words(bandwidth)} The table “Bandwidth by size” holds the numbers.",
        chart,
        height=380,
    )


def _series(bandwidth: Bandwidth, op: str) -> list[dict[str, Any]]:
    by_group: dict[tuple[str, int], list[Row]] = {}
    for row in bandwidth.measured:
        if row["op"] == op:
            by_group.setdefault(_key(row), []).append(row)
    order = sorted(by_group, key=lambda key: (-sum(map(_time, by_group[key])), key))
    return [_group_series(bandwidth, by_group[key]) for key in order[:DRAWN_GROUPS]]


def _group_series(bandwidth: Bandwidth, rows: list[Row]) -> dict[str, Any]:
    key = _key(rows[0])
    fit = next((f for f in bandwidth.fits if _key(f) == key and f["beta_gbps"]), None)
    factor = rows[0]["bus_factor"]
    line = None
    if fit and fit["alpha_ns"] is not None and factor:
        line = {
            "alpha": fit["alpha_ns"],
            "beta": fit["beta_gbps"],
            "factor": factor,
            "from": fit["bytes_min"],
            "to": fit["bytes_max"],
        }
    return {
        "label": _group(bandwidth, rows[0]),
        "line": line,
        "points": [
            [
                row["bytes"],
                _busbw(row),
                row["instances"],
                row["transfer_p50_ns"]
                if row["busbw_p50_gbps"] is not None
                else row["transfer_min_p50_ns"],
                row["busbw_p50_gbps"] is not None,
            ]
            for row in rows
        ],
    }


def _fit_table(bandwidth: Bandwidth) -> list[Table]:
    rows = sorted(bandwidth.fits, key=lambda fit: (-(fit["instances"] or 0), *_key(fit)))
    return [
        rows_table(
            "alpha-beta",
            "Latency and bandwidth per operation and group",
            "alpha_beta",
            {
                "op": "Operation",
                "group_id": Column("Group", "name"),
                "ranks": "",
                "alpha_ns": "Latency (alpha)",
                "beta_gbps": "Bandwidth (beta)",
                "half_bytes": "Half-way size",
                "sizes": "",
                "instances": "Number",
                "bytes_min": "Smallest",
                "bytes_max": "Largest",
                "error_p50_share": "Error",
                "note": "",
            },
            _named(bandwidth, rows),
            note=first_rows(MOST_ROWS, len(rows), _FIT, "most time"),
            origin=_FITS,
        )
    ]


def _named(bandwidth: Bandwidth, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the first rows with the name of their group in place of its number."""
    for row in rows[:MOST_ROWS]:
        yield {**row, "group_id": bandwidth.groups.get(row["group_id"])}


def _size_table(bandwidth: Bandwidth) -> Table:
    rows = sorted(bandwidth.sizes, key=lambda row: (-_time(row), *_key(row), row["bytes"] or 0))
    return rows_table(
        "bandwidth",
        "Bandwidth by size",
        "bandwidth",
        {
            "op": "Operation",
            "group_id": Column("Group", "name"),
            "ranks": "",
            "bytes": "Size",
            "instances": "Number",
            "transfer_p50_ns": Column("Median", group="Transfer"),
            "transfer_best_ns": Column("Shortest", group="Transfer"),
            "busbw_p50_gbps": Column("Median", group="Bus bandwidth"),
            "busbw_best_gbps": Column("Best", group="Bus bandwidth"),
            "busbw_free_p50_gbps": Column("Without clocks", group="Bus bandwidth"),
            "slow": "",
            "unresolved": "",
            "peer_ratio": "Peers",
            "note": "",
        },
        _named(bandwidth, rows),
        note=first_rows(MOST_ROWS, len(rows), _BANDWIDTH, "most time"),
    )
