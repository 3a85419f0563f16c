"""What becomes of every kind of damaged Kineto file: the promise of each row of the table."""

import gzip
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests import marks
from tests.conftest import Captured
from tests.marks import at_once, first_at_once, nightly
from tests.robustness.conftest import Load
from tests.robustness.loading import unaccounted
from traceweave.cli.main import main
from traceweave.sources.kineto import stream

GOOD = b'{"ph":"X","cat":"cpu_op","name":"good","pid":1,"tid":1,"ts":1,"dur":1}'


def event(
    name: bytes = b'"odd"', ts: bytes = b"2", dur: bytes = b"1", args: bytes = b"{}"
) -> bytes:
    return (
        b'{"ph":"X","cat":"cpu_op","name":%b,"pid":1,"tid":1,"ts":%b,"dur":%b,"args":%b}'
        % (name, ts, dur, args)
    )  # fmt: skip


def document(*events: bytes, top: bytes = b'"distributedInfo":{"rank":0},') -> bytes:
    return b"{" + top + b'"traceEvents":[' + b",".join(events) + b"]}"


def between(middle: bytes) -> bytes:
    return document(GOOD, middle, GOOD)


def lines(*events: dict[str, Any]) -> bytes:
    """Return a trace in Kineto's own layout."""
    return json.dumps(
        {"distributedInfo": {"rank": 0}, "traceEvents": list(events)}, indent=2
    ).encode()


def span(name: str) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 1}


LINES = lines(*(span(f"op{i}") for i in range(4)))
HALF = LINES[: LINES.index(b"op2")]
MANY = lines(*(span(f"op{i}") for i in range(40)))

# what was done to the file: (bytes, outcome, events read, events stored)
Row = tuple[str, bytes, str, int, int]

LAYOUT: list[Row] = [
    ("no closing brace", document(GOOD, GOOD)[:-1], "partly", 2, 2),
    ("no closing brackets", document(GOOD, GOOD)[:-2], "partly", 2, 2),
    ("no closing brackets, a comma", document(GOOD, GOOD)[:-2] + b",", "partly", 2, 2),
    ("lines, no closing brackets", LINES[: LINES.rindex(b"]")].rstrip(), "partly", 4, 4),
    ("lines, cut in an event", HALF, "partly", 3, 2),
    ("comma after the last event", document(GOOD, GOOD)[:-2] + b",]}", "fully", 2, 2),
    ("two commas", document(GOOD, b"", GOOD), "fully", 2, 2),
    ("no comma", document(GOOD + b"\n" + GOOD), "fully", 2, 2),
    ("lines, no comma", LINES.replace(b"    },\n", b"    }\n", 2), "fully", 4, 4),
    ("a brace too many", document(GOOD, GOOD + b"}", GOOD), "partly", 4, 3),
    ("lines, a brace too many", MANY.replace(b'"op7"', b'"op7"}'), "partly", 41, 39),
    ("lines, a brace missing: two are one", MANY.replace(b"    },", b"    ,", 1), "partly", 39, 38),
    ("text after the end", document(GOOD) + b"\nKilled", "partly", 1, 1),
    ("two documents", document(GOOD) + document(GOOD), "partly", 1, 1),
    ("two event arrays", document(GOOD)[:-1] + b',"traceEvents":[' + GOOD + b"]}", "partly", 1, 1),
    ("values that are no events", between(b'5,"text",null,[1],true'), "partly", 7, 2),
    ("a value at the end", document(GOOD, b"5"), "partly", 2, 1),
    ("an array of events in the array", between(b"[" + GOOD + b"]"), "partly", 3, 2),
    ("empty objects", between(b"{},{ }"), "partly", 4, 2),
    ("the key further inside", document(GOOD, top=b'"a":{"traceEvents":[1]},'), "fully", 1, 1),
    ("the key in a string", document(GOOD, top=rb'"a":"\"traceEvents\":[",'), "fully", 1, 1),
    ("layout changes", LINES[:-4] + b" ," + GOOD + b"]}", "fully", 5, 5),
    ("byte order mark", b"\xef\xbb\xbf" + document(GOOD), "fully", 1, 1),
    ("CRLF", LINES.replace(b"\n", b"\r\n"), "fully", 4, 4),
    ("CR alone", LINES.replace(b"\n", b"\r"), "fully", 4, 4),
    ("zeros for a stretch", LINES[:300] + bytes(20) + LINES[320:], "partly", 4, 3),
    ("zeros for the rest", HALF + bytes(9999), "partly", 3, 2),
    ("no events", document(), "fully", 0, 0),
]  # fmt: skip

VALUES: list[Row] = [
    *((f"{v.decode()} in args", between(event(args=b'{"bw":%b,"x":[%b]}' % (v, v))), "fully", 3, 3)
      for v in (b"NaN", b"Infinity", b"-Infinity", b"nan", b"-inf", b"-nan(ind)", b"-1.#IND")),
    *((f"{v.decode()} as time", between(event(ts=v)), "partly", 3, 2)
      for v in (b"NaN", b"Infinity", b"-1.#IND", b"1e999", b"9" * 400, b"9223372036854775807")),
    ("lone backslashes", between(event(name=rb'"C:\path\new\users\x"')), "fully", 3, 3),
    ("a backslash before the quote", between(event(name=rb'"C:\path\"')), "partly", 3, 2),
    ("quotes in a name", between(event(name=b'"say "hi" now"')), "fully", 3, 3),
    ("one quote in a name", document(GOOD, event(name=b'"say "hi now"'), GOOD, GOOD), "fully", 4, 4),  # noqa: E501
    ("lines, one quote in a name", LINES.replace(b"op1", b'o"p'), "fully", 4, 4),
    ("a quote and a bracket in a name", between(event(name=b'"a"]b"')), "partly", 4, 2),
    ("half of the events damaged", document(*[event(name=b'a"b'), GOOD] * 50), "partly", 100, 50),
    ("Latin-1", between(event(name=b'"caf\xe9"', args=b'{"\xe9":1}')), "fully", 3, 3),
    ("a character cut in two", between(event(name=b'"x\xe2\x82"')), "fully", 3, 3),
    ("Latin-1 before the events", document(GOOD, top=b'"a":"\xe9",'), "fully", 1, 1),
    ("half a surrogate pair", between(event(name=rb'"\ud800 \udfff"')), "fully", 3, 3),
    ("a whole surrogate pair", between(event(name=rb'"\ud83d\ude00"')), "fully", 3, 3),
    ("NUL", between(event(name=rb'"a\u0000b"', args=b'{"\x00":"\x00"}')), "fully", 3, 3),
    ("raw line ends", between(event(name=b'"a\nb\tc"')), "fully", 3, 3),
    ("wrong escapes", between(event(name=rb'"\x41 \u12 \q"')), "fully", 3, 3),
    ("a string of 1 MiB", between(event(name=b'"' + b"x" * (1 << 20) + b'"')), "fully", 3, 3),
    ("huge integers", between(event(args=b'{"bytes":%b,"correlation":-%b}' % (b"9" * 400, b"9" * 30))), "fully", 3, 3),  # noqa: E501
    ("negative duration", between(event(dur=b"-5")), "partly", 3, 2),
    ("overflowing duration", between(event(dur=b"4e15")), "partly", 3, 2),
    ("overflowing sum", between(event(ts=b"3999999999999999", dur=b"999999999999999")), "fully", 3, 3),  # noqa: E501
    ("keys twice", between(GOOD.replace(b"{", b'{"ph":"i","ts":7,')), "fully", 3, 3),
    ("keys twice in args", between(event(args=b'{"a":1,"a":2}')), "fully", 3, 3),
    ("arguments that are no object", between(event(args=b"[1,2]")), "fully", 3, 3),
    ("deep nesting", between(event(args=b'{"a":' * 500 + b"1" + b"}" * 500)), "fully", 3, 3),
    ("odd counters", between(b'{"ph":"C","ts":1,"name":"c","args":{"":1,"a\\"b\\\\":2,"x":[3]}},{"ph":"C","ts":1,"name":"c","args":5},{"ph":"C","ts":1}'), "fully", 5, 5),  # noqa: E501
]  # fmt: skip

TOP: list[Row] = [
    (f"{key} {value[:24]}", document(GOOD, top=b'"%b":%b,' % (key.encode(), value.encode())), "fully", 1, 1)  # noqa: E501
    for key, values in {
        "distributedInfo": ['{"rank":4000000000}', '{"rank":-3}', '{"rank":"\\u00b2"}', '{"rank":"--3"}',  # noqa: E501
                            '{"rank":"%s"}' % ("9" * 5000), '{"rank":1.5,"world_size":"eight"}', "[1]", "5",  # noqa: E501
                            '{"pg_config":[{"pg_name":"a","pg_size":1e30,"ranks":[1,99999999999]},5,{"pg_name":7}]}'],
        "baseTimeNanoseconds": ["9223372036854775807", "-9223372036854775808", "1e30", '"x"', "null"],  # noqa: E501
        "deviceProperties": ['[{"id":99999999999,"name":"x"},{"id":-1,"name":5},7,null]', "{}"],
    }.items()
    for value in values
]  # fmt: skip

FOREIGN: list[Row] = [
    (name, data, "refused", 0, 0)
    for name, data in {
        "empty": b"",
        "white space": b" \n\n",
        "zeros": bytes(10_000),
        "noise": random.Random(1).randbytes(10_000),
        "a web page": b"<html>404</html>",
        "a package": b'{"name":"left-pad","version":"1.0"}',
        "a package with a schema": b'{"schemaVersion":1,"packages":[]}',
        "a list": b"[1,2,3]",
        "lines of JSON": b'{"a":1}\n{"b":2}\n',
        "a flame graph": b'{"$schema":"https://www.speedscope.app","profiles":[]}',
        "a memory snapshot": b'{"segments":[],"device_traces":[]}',
        "events that are no array": b'{"schemaVersion":1,"traceEvents":{"a":1}}',
        "events that are null": b'{"schemaVersion":1,"traceEvents":null}',
        "UTF-16": '\ufeff{"schemaVersion":1,"traceEvents":[]}'.encode("utf-16-le"),
        "one byte": b"{",
        "a gzip stream of nothing": gzip.compress(b""),
        "a gzip header": gzip.compress(document(GOOD))[:10],
        "a gzip stream of noise": b"\x1f\x8b" + random.Random(1).randbytes(5000),
        "the beginning of SQLite": b"SQLite format 3\0",
    }.items()
]

ROWS = [*LAYOUT, *VALUES, *TOP, *FOREIGN]


@pytest.mark.parametrize("row", at_once(ROWS, *ROWS[::14]), ids=[row[0] for row in ROWS])
def test_a_damaged_file_has_its_promised_outcome(row: Row, load: Load, con: Connection) -> None:
    _, data, kind, read, stored = row
    outcome = load(data)
    assert (outcome.kind, outcome.read, outcome.stored) == (kind, read, stored), outcome
    assert outcome.read == outcome.stored + sum(issue.count for issue in outcome.issues)
    if kind == "refused":
        assert outcome.refused
        assert "\n" not in outcome.refused.strip()
        return
    lost = sum(issue.count for issue in outcome.issues if issue.kind != "damaged event")
    assert len(unaccounted(con)) == lost


def test_mended_names_are_what_was_meant(load: Load, con: Connection) -> None:
    names: list[bytes] = [
        rb'"C:\path\\new\u00e9"', b'"say "hi" now"', rb'"a \ud800 b"', b'"NaN, NaN]"', b'"\xe9"',
    ]  # fmt: skip
    load(document(*(event(name=name, args=b'{"x":NaN}') for name in names)))
    assert con.execute("SELECT name, args FROM base.host_ops ORDER BY op_id").fetchall() == [
        (name, '{"x":null}')
        for name in ("C:\\path\\new\u00e9", 'say "hi" now', "a \ufffd b", "NaN, NaN]", "\ufffd")
    ]


@nightly
def test_events_out_of_order_are_loaded_like_ordered_ones(load: Load, con: Connection) -> None:
    events = [span(f"op{i}") | {"ts": i * 10, "dur": 25 if i % 3 == 0 else 5} for i in range(300)]
    query = "SELECT name, start_local_ns, depth FROM base.host_ops ORDER BY start_local_ns"
    load(lines(*events))
    ordered = con.execute(query).fetchall()
    random.Random(1).shuffle(events)
    outcome = load(lines(*events))
    assert (outcome.kind, outcome.stored) == ("fully", 300)
    assert con.execute(query).fetchall() == ordered


def test_phases_nobody_knows_are_kept(load: Load, con: Connection) -> None:
    phases = ["Z", "", "P", "N", "b", "e", "S", "(", 5, True, [1], {"a": 1}]
    events = [{"ph": phase, "cat": "c", "name": "n", "ts": 5, "args": {"x": 1}} for phase in phases]
    outcome = load(lines(*events, {"ph": None, "ts": 5}))
    assert (outcome.read, outcome.stored) == (13, 12)
    assert con.execute("SELECT count(*) FROM other_events").fetchall() == [(12,)]
    assert [(issue.kind, issue.count) for issue in outcome.issues] == [("no phase", 1)]


@first_at_once()
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_event_too_large_is_left_out_and_counted(
    load: Load, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    small = (None, 1 << 16, 1 << 18, None, iter)
    monkeypatch.setattr(stream.EventStream.__init__, "__defaults__", small)
    huge = event(args=b'{"a":"' + b"x" * (1 << 20) + b'"}')
    outcome = load(pack(document(GOOD, huge, GOOD, GOOD)))
    assert (outcome.read, outcome.stored) == (4, 3)
    assert [(issue.kind, issue.count) for issue in outcome.issues] == [("damaged event", 1)]
    assert outcome.damaged == "an event is larger than 64 MiB"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("before", (b'{"schemaVersion":1,"note":', b',"traceEvents":[%b]}' % GOOD),
         "no traceEvents in its first 32 MiB; if it is a trace, take the large value before them"
         " out of the file"),
        ("after", (b'{"schemaVersion":1,"traceEvents":[%b],"note":' % GOOD, b"}"),
         "more than 32 MiB follow its traceEvents, which no profiler writes; take the large value"
         " out of the file"),
    ],
)  # fmt: skip
def test_a_huge_value_beside_the_events_is_one_line_at_once(
    tmp_path: Path, capsys: Captured, name: str, data: tuple[bytes, bytes], reason: str
) -> None:
    (tmp_path / "rank0.json").write_bytes(document(GOOD))
    with (tmp_path / "rank1.json").open("wb") as file:
        file.write(data[0] + b'"')
        file.write(b"x" * (40 << 20))
        file.seek(260 << 20, os.SEEK_CUR)  # zeros, which take no time to write
        file.write(b'"' + data[1])

    began = time.process_time()
    code = main(["ingest", "--no-verdict", str(tmp_path), "-o", str(tmp_path / "run.duckdb")])

    assert time.process_time() - began < 20
    assert code == 3
    assert f"failed: {tmp_path}/rank1.json: {reason}\n" in capsys.readouterr().err


@nightly
def test_a_large_value_beside_the_events_is_no_obstacle(load: Load) -> None:
    outcome = load(document(GOOD, top=b'"schemaVersion":1,"note":"%b",' % (b"x" * (20 << 20))))
    assert (outcome.kind, outcome.stored) == ("fully", 1)


@nightly
@pytest.mark.parametrize("keys", [30_000, pytest.param(100_000, marks=nightly)])
def test_many_keys_that_look_like_the_array_cost_few_looks(load: Load, keys: int) -> None:
    """They take more than a block, after which the array comes."""
    began = time.process_time()
    outcome = load(
        document(
            GOOD, top=b'"schemaVersion":1,"a":{"b":[%b]},' % (b'{"traceEvents":[]},' * keys + b"0")
        )
    )
    assert (outcome.kind, outcome.stored) == ("fully", 1)
    assert time.process_time() - began < 20


@nightly
@pytest.mark.parametrize("apart", [1511, 503, 29])
@pytest.mark.parametrize("indent", [2, None])
@pytest.mark.parametrize("pack", at_once([bytes, gzip.compress], bytes))
def test_zeros_at_any_place_cost_what_they_cover_and_are_said(
    load: Load, indent: int | None, pack: Callable[[bytes], bytes], apart: int
) -> None:
    """A block that a crashed machine never wrote swallows quotes and braces, odd ones too."""
    events = [
        span(f"op{i}") | {"args": {"Input Dims": [[i, 2], [3]], "of": {"step": i}, "x": "y" * 40}}
        for i in range(200)
    ]
    whole = {"distributedInfo": {"rank": 0}, "traceEvents": events, "more": 1}
    data = json.dumps(whole, indent=indent).encode()
    shortest = len(data) // len(events) - 20
    first = data.index(b"[") + 10
    places = range(first, len(data) - 700, 11_003 if marks.by_night else 33_009)
    for size in (3, 512):
        for at in [*places, *range(first + 3000, first + 3000 + shortest, apart)]:
            outcome = load(pack(data[:at] + bytes(size) + data[at + size :]))

            assert (
                outcome.damaged == "zeros are where text was, as a machine that crashes leaves them"
            )
            assert outcome.read > outcome.stored >= 200 - 2 - size // shortest - 1, (at, size)
