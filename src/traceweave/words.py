"""Numbers as people read them: the one writer for the terminal, the pages and every sentence.

- Digits: three significant ones in a sentence, four in a table, where numbers are compared. Digits
  before the point are never rounded away ('1,234 s'), halves go up, zeros at the end stay
  ('1.50 MB'). A number without a unit has no more digits than it needs ('2.5').
- Units are decimal, and the one that leaves one to three digits before the point *after* rounding:
  '1.00 ms', never '1,000 us'. What is whole in its smallest unit is written whole: '512 ns', '8 B'.
- Microseconds are 'us', runs of ranks have a hyphen, ratios an 'x': PyTorch's tables and nccl-tests
  write them so, the options and rules of this program take them so, and every encoding has them.
- A share is a percentage with one decimal that is 0.0% or 100.0% only if it is exactly that.
- What is not known is MISSING, in a cell as in a sentence.
- Machines get none of this: CSV, JSON, Parquet and Python hold plain numbers in base units.

assets/charts.js writes what the reader of a page points at by the same rules; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

Number: TypeAlias = int | float | Decimal
Kind: TypeAlias = Literal["duration", "bytes", "flops", "percent"]
_Units: TypeAlias = tuple[tuple[int, str], ...]
"""Powers of ten with their unit, falling."""

SENTENCE, TABLE = 3, 4
"""Significant digits of a number in a sentence, and in a table."""

MISSING = "-"
"""Stands for NULL: the inputs do not support the number."""

MOST_RUNS = 8
"""Ranks, or runs of neighbours, that a list names before it counts the rest."""

LONG_NAME = 60
"""Characters of a name that stand in a sentence."""

EPOCH_FROM_NS = 10**17
"""A time in ns beyond this (1973) is a moment, anything shorter a duration."""

LAST_NS = 2**63
"""A time in ns beyond this (2262) is no moment that the tables can hold."""

FRACTIONS = ("share", "_fraction", "_efficiency", "relative", "_balance", "mfu", "hfu")
"""Columns whose names end like this hold shares of a whole, written in percent."""

_TIMES: _Units = ((9, "s"), (6, "ms"), (3, "us"), (0, "ns"))
_SIZES: _Units = ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB"), (0, "B"))
_WORK: _Units = ((18, "EFLOP"), (15, "PFLOP"), (12, "TFLOP"), (9, "GFLOP"), (6, "MFLOP"),
                 (3, "kFLOP"), (0, "FLOP"))  # fmt: skip
_EXACT = Context(prec=1000, rounding=ROUND_HALF_UP)
_TINY, _HUGE = Decimal("0.001"), Decimal(10) ** 15
"""Plain numbers beyond these are written with a power of ten."""


def duration(ns: Number | None, digits: int = SENTENCE, *, signed: bool = False) -> str:
    """Write nanoseconds: '12.3 us'; a change, which is `signed`: '+12.3 us'."""
    return _plus(ns, signed) + _quantity(ns, _TIMES, digits)


def size(count: Number | None, digits: int = SENTENCE) -> str:
    """Write bytes: '33.6 MB'."""
    return _quantity(count, _SIZES, digits)


def rate(gbps: Number | None, digits: int = SENTENCE) -> str:
    """Write a bandwidth, given in GB/s: '202 GB/s', '45.2 MB/s'."""
    if gbps is None:
        return MISSING
    return f"{_quantity(_exact(gbps).scaleb(9, _EXACT), _SIZES, digits)}/s"


def work(flops: Number | None, digits: int = SENTENCE) -> str:
    """Write a number of floating point operations: '146 TFLOP'."""
    return _quantity(flops, _WORK, digits)


def number(value: Number | None, digits: int = SENTENCE) -> str:
    """Write a number without a unit: '0.123', '2.5', '12,346', '8.8e-05'."""
    if value is None:
        return MISSING
    exact = _exact(value)
    if not exact.is_finite() or abs(exact) >= _HUGE or 0 < abs(exact) < _TINY:
        return f"{float(exact):.2g}"
    text = _grouped(_rounded(exact, digits))
    return text.rstrip("0").rstrip(".") if "." in text else text


def cell(column: str, value: object) -> str:
    """Write one value of a table's column; its unit is what the name of the column ends with.

    Whole numbers without a unit are written as they are stored: they may be ids, for a next query.
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("ranks") and isinstance(value, list) and set(map(type, value)) == {int}:
        return folded(value)
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    return _in_column(column, value) if isinstance(value, int | float) else str(value)


def kind(column: str) -> Kind | None:
    """Return what the numbers of a column are, as the end of its name says; None: plain numbers."""
    if column.endswith("_ns"):
        return "duration"
    if column.startswith("bytes") or column.endswith("_bytes"):
        return "bytes"
    if column == "flops" or column.endswith("_flops"):
        return "flops"
    return "percent" if column.endswith(FRACTIONS) else None


def bare(column: str) -> str:
    """Return the name of a column without the unit that its values are shown with."""
    return column.removesuffix("_ns").removesuffix("_bytes")


def _in_column(column: str, value: int | float) -> str:
    what = kind(column)
    if what == "duration":
        is_moment = EPOCH_FROM_NS < value < LAST_NS and not column.endswith("offset_ns")
        return time_of_day(int(value)) if is_moment else duration(value, TABLE)
    if what in ("bytes", "flops"):
        return size(value, TABLE) if what == "bytes" else work(value, TABLE)
    if isinstance(value, int):
        return str(value)
    return percent(value) if what == "percent" else number(value, TABLE)


def ratio(value: Number | None, digits: int = SENTENCE) -> str:
    """Write how many times one thing is another: '3.55x'."""
    return MISSING if value is None else f"{number(value, digits)}x"


def percent(fraction: Number | None, *, signed: bool = False) -> str:
    """Write a fraction (0 to 1) as a percentage: '12.3%'; a change, which is `signed`: '+12.3%'.

    It rounds to nothing or to all only if it is that: '<0.1%', '>99.9%'.
    """
    if fraction is None:
        return MISSING
    exact = _exact(fraction).scaleb(2, _EXACT)
    if not exact.is_finite():
        return str(fraction)
    rounded = exact.quantize(Decimal("0.1"), context=_EXACT)
    plus = _plus(fraction, signed)
    if not rounded and exact:
        return f"<{plus}0.1%" if exact > 0 else ">-0.1%"
    if abs(rounded) == 100 and abs(exact) < 100:
        return f">{plus}99.9%" if exact > 0 else "<-99.9%"
    return f"{plus}{_grouped(rounded)}%"


def count(value: int | None) -> str:
    """Write a whole number with separated thousands."""
    return MISSING if value is None else f"{value:,}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: '1 rank', '8 ranks'."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def about(mean: Number, noun: str) -> str:
    """Write a mean number of things as a whole one with its noun, never none: '29 gaps'."""
    return plural(max(int(_exact(mean).quantize(Decimal(1), context=_EXACT)), 1), noun)


def few(count: int, noun: str) -> str:
    """Write a warning where a sentence rests on two or less: ' (only 2 collectives)'; else ''."""
    return f" (only {plural(count, noun)})" if count <= 2 else ""


def folded(numbers: Iterable[int], most: int = MOST_RUNS) -> str:
    """Write ranks, or steps, in ascending order with runs folded: '0-2, 5'.

    Two neighbours are no run: '0, 1'. After the first `most` the rest is counted: '..., 14 and 24
    more'.
    """
    runs: list[list[int]] = []
    for one in sorted(set(numbers)):
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    parts = [part for run in runs for part in ([run] if len(run) > 2 else [[one] for one in run])]
    named, rest = parts[:most], sum(map(len, parts[most:]))
    text = ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in named)
    return f"{text} and {rest:,} more" if rest else text or MISSING


def name_ranks(ranks: Sequence[int]) -> str:
    """Write 'rank 3', 'ranks 0 and 1' or 'ranks 0-2, 5'."""
    return named("rank", ranks)


def named(noun: str, numbers: Sequence[int]) -> str:
    """Write 'step 3', 'steps 0 and 1' or 'steps 0-2, 5'."""
    which = sorted(set(numbers))
    listed = " and ".join(map(str, which)) if len(which) == 2 else folded(which)
    return f"{noun if len(which) == 1 else noun + 's'} {listed}"


def doubts_said(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each kind of doubt in rows of the table `recording`: the ranks, and what
    it is on the one that has most of it."""
    kinds: dict[object, list[Mapping[str, Any]]] = {}
    for row in rows:
        kinds.setdefault((row["kind"], row["is_unknown"], bool(row["steps"])), []).append(row)
    for alike in kinds.values():
        worst = max(alike, key=lambda row: (row["count"] or 0, -row["rank"]))
        differ = any(row["message"] != worst["message"] for row in alike)
        most = f", rank {worst['rank']} most" if differ else ""
        yield f"{name_ranks(sorted(row['rank'] for row in alike))}{most}: {worst['message']}"


def subject(ranks: Sequence[int], one: str, many: str) -> str:
    """Begin a title with ranks and what each of them does: 'Rank 3 launches late', 'Ranks 0 and 6
    launch late', '12 ranks launch late'; without ranks 'Most ranks launch late'.
    """
    chosen = sorted(set(ranks))
    if not chosen:
        return f"Most ranks {many}"
    if len(chosen) > 2 and chosen[-1] - chosen[0] > len(chosen) - 1:
        return f"{len(chosen)} ranks {many}"
    return f"{name_ranks(chosen).capitalize()} {one if len(chosen) == 1 else many}"


def shortened(name: str, most: int = LONG_NAME) -> str:
    """Cut a name that is too long for a sentence or an axis: 'void at::native::vectorized…'."""
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def long_time(ns: int) -> str:
    """Write what lies between two recordings: '5.0 hours', '9 days', '3.2 years'."""
    hours = ns / 3.6e12
    if hours < 48:
        return f"{hours:.1f} hours"
    return f"{hours / 24:.0f} days" if hours < 24 * 730 else f"{hours / 24 / 365.25:.1f} years"


def time_of_day(ns: int) -> str:
    """Write epoch nanoseconds as UTC time of day, to the microsecond: '05:02:02.815782'."""
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{rest // 1000:06d}"


def date_and_time(moment: int | str) -> str:
    """Write epoch nanoseconds, or a moment in ISO 8601: '2026-08-01 05:02:02 UTC'."""
    if isinstance(moment, int):
        at = datetime.fromtimestamp(moment // 10**9, UTC)
    else:
        at = datetime.fromisoformat(moment).astimezone(UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


class Scale(NamedTuple):
    """One unit for many values of a kind: value / 10**power, with `decimals`, reads in `unit`."""

    power: int
    unit: str
    decimals: int

    def text(self, value: Number | None) -> str:
        """Write a value in this unit, without naming it; 0 only if it is 0."""
        if value is None:
            return MISSING
        scaled = _exact(value).scaleb(-self.power, _EXACT)
        least = Decimal(1).scaleb(-self.decimals)
        rounded = scaled.quantize(least, context=_EXACT)
        if not rounded and scaled:
            return f"<{least}" if scaled > 0 else f">-{least}"
        return _grouped(rounded)


def duration_scale(largest_ns: Number, digits: int = TABLE) -> Scale:
    """Return the unit and decimals in which `largest_ns` has this many significant digits."""
    return _scale(largest_ns, _TIMES, digits)


def size_scale(largest: Number, digits: int = TABLE) -> Scale:
    """Return the unit and decimals in which `largest` bytes have this many significant digits."""
    return _scale(largest, _SIZES, digits)


def _scale(largest: Number, units: _Units, digits: int) -> Scale:
    power, unit, scaled = _in_unit(_exact(largest), units, digits)
    exponent = _rounded(scaled, digits).as_tuple().exponent
    assert isinstance(exponent, int)  # a duration is finite
    return Scale(power, unit, -exponent if power else 0)


def _quantity(value: Number | None, units: _Units, digits: int) -> str:
    if value is None:
        return MISSING
    exact = _exact(value)
    if not exact.is_finite():
        return str(value)
    power, unit, scaled = _in_unit(exact, units, digits)
    whole = power == 0 and scaled == scaled.to_integral_value()
    return f"{_grouped(_rounded(scaled, 1 if whole else digits))} {unit}"


def _in_unit(exact: Decimal, units: _Units, digits: int) -> tuple[int, str, Decimal]:
    """Return the largest unit of which there is at least one, once rounded, and how many."""
    amount = abs(exact)
    power, unit = next((one for one in units if amount >= _least(one[0], digits)), units[-1])
    return power, unit, exact.scaleb(-power, _EXACT)


@cache
def _least(power: int, digits: int) -> Decimal:
    """Return the smallest number that rounds to 10**power."""
    return Decimal(10) ** power - 5 * Decimal(10) ** (power - digits - 1)


def _rounded(value: Decimal, digits: int) -> Decimal:
    """Round to this many significant digits, but no digit before the point."""
    if not value:
        return Decimal(0)
    decimals = max(digits - 1 - value.adjusted(), 0)
    rounded = value.quantize(Decimal(1).scaleb(-decimals), context=_EXACT)
    if decimals and rounded.adjusted() > value.adjusted():  # 9.996 is 10.0, not 10.00
        rounded = rounded.quantize(Decimal(1).scaleb(1 - decimals), context=_EXACT)
    return rounded


def _exact(value: Number) -> Decimal:
    """Return the decimal number that Python prints for a value."""
    return Decimal(value) if isinstance(value, int | Decimal) else Decimal(repr(float(value)))


def _grouped(value: Decimal) -> str:
    return f"{value if value else abs(value):,f}"


def _plus(value: Number | None, signed: bool) -> str:
    return "+" if signed and value is not None and value > 0 else ""
