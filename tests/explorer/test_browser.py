"""The page in a real Chromium, with a real mouse and real keys."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from playwright.sync_api import Page, Route, expect

from tests.chromium import Chromium, Visit
from tests.collective_calls import with_a_buffered_message
from tests.explorer.serving import serving
from tests.marks import nightly
from traceweave.explorer.explorer import Explorer, explore
from traceweave.explorer.server import Server
from traceweave.explorer.views import Stretch
from traceweave.words import time_of_day

pytestmark = pytest.mark.browser

TIMEOUT_MS = 15_000
"""Of a machine that is busy with something else."""

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}"


@pytest.fixture(scope="module")
def visit(chromium: Chromium, served: Server) -> Iterator[Visit]:
    """The page, which all tests of this module look at."""
    with chromium.open(served.url, 1440, 900) as visit:
        visit.page.set_default_timeout(TIMEOUT_MS)
        _drawn(visit.page)
        yield visit


@pytest.fixture
def page(visit: Visit) -> Iterator[Page]:
    """The page as it is at first; nothing may be said on its console."""
    visit.page.keyboard.press("Escape")
    visit.page.evaluate("() => window.traceweave.view.whole()")
    _drawn(visit.page)
    yield visit.page
    assert visit.console == []


def _drawn(page: Page) -> None:
    """Wait until the lanes in view have come and are drawn."""
    page.wait_for_function(
        "() => window.traceweave?.data.lanes && window.traceweave.data.coming.size === 0"
        " && !window.traceweave.frameAsked"
    )


def _view(page: Page) -> tuple[float, float]:
    first, last = page.evaluate("() => [window.traceweave.view.from, window.traceweave.view.until]")
    return first, last


def _box(page: Page, selector: str) -> dict[str, float]:
    box = page.locator(selector).bounding_box()
    assert box is not None
    return dict(box)


def _spot(page: Page, category: int) -> tuple[float, float]:
    """Look at the longest operation of a category in view, and return where it is on the page."""
    i = page.evaluate(
        """(category) => {
          const { frame } = window.traceweave.scene;
          const places = [...frame.op_id.keys()].filter((i) => frame.category[i] === category);
          const lengths = frame.duration_ns;
          const best = places.reduce((a, b) => (lengths[b] > lengths[a] ? b : a));
          window.traceweave.view.look(frame.start_ns[best] - 5 * frame.duration_ns[best],
            11 * frame.duration_ns[best]);
          return frame.op_id[best];
        }""",
        category,
    )
    _drawn(page)
    x, y = page.evaluate(
        """(id) => {
          const { scene, canvas, view } = window.traceweave;
          const { frame, rows, scroll } = scene;
          const i = frame.op_id.indexOf(id);
          const row = rows.find((one) => one.kind === "stream" && one.lane.lane === frame.lane[i]);
          const x = (frame.start_ns[i] + frame.duration_ns[i] / 2 - view.from) / view.length;
          const box = canvas.getBoundingClientRect();
          return [box.left + x * box.width, box.top + row.top - scroll + row.height / 2];
        }""",
        i,
    )
    return float(x), float(y)


def _settled(page: Page, condition: str, given: object = None) -> None:
    """Wait until a condition holds, and all is drawn: events of the wheel come when they come."""
    page.wait_for_function(condition, arg=given)
    _drawn(page)


def test_the_first_view_shows_the_whole_run(page: Page, explorer: Explorer) -> None:
    assert _view(page) == (0, explorer.run.span_ns)
    expect(page.locator("#facts")).to_contain_text("4 ranks")
    labels = page.locator("#gutter .rank").all_text_contents()
    assert labels == [f"rank {rank}⇡host threads" for rank in range(4)]
    assert _colours(page, "#lanes") > 4
    assert _colours(page, "#overview") > 2


_PIXELS = """
  const pixels = (canvas, x, width) => {
    const copy = new OffscreenCanvas(width, canvas.height);
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, -x, 0);
    return pen.getImageData(0, 0, width, canvas.height).data;
  };
"""


def _colours(page: Page, canvas: str) -> int:
    """How many colours there are on a canvas."""
    return int(
        page.evaluate(
            f"""(name) => {{
              {_PIXELS}
              const canvas = document.querySelector(name);
              const data = pixels(canvas, 0, canvas.width);
              return new Set(new Uint32Array(data.buffer)).size;
            }}""",
            canvas,
        )
    )


@nightly
def test_the_wheel_zooms_at_the_pointer_down_to_nanoseconds(page: Page, explorer: Explorer) -> None:
    box = _box(page, "#lanes")
    x = box["x"] + box["width"] / 3
    page.mouse.move(x, box["y"] + 40)
    under = explorer.run.span_ns / 3
    page.mouse.wheel(0, -300)
    _settled(page, f"() => window.traceweave.view.length < {explorer.run.span_ns / 2}")
    first, last = _view(page)
    assert first + (last - first) / 3 == pytest.approx(under, rel=1e-3)
    for _ in range(20):
        page.mouse.wheel(0, -300)
    _settled(page, "() => window.traceweave.view.length === 50")
    pixel = explorer.run.span_ns / box["width"]
    assert _view(page)[0] == pytest.approx(under, abs=pixel)
    for _ in range(25):
        page.mouse.wheel(0, 300)
    _settled(page, "() => window.traceweave.view.length >= window.traceweave.view.span")


@nightly
def test_dragging_moves_and_sideways_wheel_too(page: Page) -> None:
    box = _box(page, "#lanes")
    page.mouse.move(box["x"] + 600, box["y"] + 200)
    page.mouse.wheel(0, -300)
    _settled(page, "() => window.traceweave.view.length < window.traceweave.view.span / 2")
    first, last = _view(page)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 200, steps=3)
    page.mouse.up()
    moved, _ = _view(page)
    assert moved - first == pytest.approx(100 / box["width"] * (last - first), rel=0.01)
    page.mouse.wheel(50, 0)
    _settled(page, "(moved) => window.traceweave.view.from > moved", moved)


def test_keys_zoom_and_move_as_in_perfetto(page: Page, explorer: Explorer) -> None:
    page.mouse.move(700, 500)
    page.keyboard.press("w")
    first, last = _view(page)
    assert last - first == pytest.approx(0.6 * explorer.run.span_ns)
    expect(page.locator("#status")).to_contain_text("Shown:")
    page.keyboard.press("d")
    assert _view(page)[0] == pytest.approx(first + 0.2 * (last - first))
    page.keyboard.press("a")
    page.keyboard.press("s")
    page.keyboard.press("0")
    assert _view(page) == (0, explorer.run.span_ns)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


def test_ranks_unfold_by_keyboard_with_threads_and_gaps(page: Page) -> None:
    before = page.locator("#gutter .row").count()
    host = page.get_by_role("button", name="host threads of rank 0", exact=True)
    host.focus()
    page.keyboard.press("Enter")
    _drawn(page)
    page.wait_for_function("() => window.traceweave.data.host.has(0)")
    assert page.locator("#gutter .thread").count() >= 1
    assert page.locator("#gutter .row").count() > before
    assert page.evaluate("() => window.traceweave.data.host.get(0).thread.length") > 50
    expect(host).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#gutter .thread")).to_have_count(0)
    page.wait_for_function("() => window.traceweave.data.gaps?.of.size === 4")


@nightly
def test_pinned_ranks_come_first_also_in_a_link(
    page: Page, chromium: Chromium, served: Server
) -> None:
    order = (
        "() => window.traceweave.scene.rows.filter((one) => one.kind === 'rank')"
        ".map((one) => one.rank)"
    )
    assert page.evaluate(order) == [0, 1, 2, 3]
    pin = page.get_by_role("button", name="pin rank 2 to the top")
    pin.click()
    _drawn(page)
    assert page.evaluate(order) == [2, 0, 1, 3]
    page.wait_for_function("() => location.hash.includes('pinned=2')")
    with chromium.open(page.url, 1440, 900) as other:
        _drawn(other.page)
        assert other.page.evaluate(order) == [2, 0, 1, 3]
    expect(pin).to_have_attribute("aria-pressed", "true")
    pin.click()
    _drawn(page)
    assert page.evaluate(order) == [0, 1, 2, 3]


@nightly
def test_a_click_picks_an_operation_and_arrows_join_its_ranks(
    page: Page, explorer: Explorer
) -> None:
    spot = _spot(page, 1)
    card = page.locator("#card")
    page.mouse.move(*spot)
    expect(card).to_be_visible()
    page.mouse.click(*spot)
    pane = page.locator("#pane-details")
    expect(pane).to_contain_text("came last")
    expect(card).to_be_hidden()
    picked = page.evaluate("() => window.traceweave.view.picked.start_ns")
    expect(pane).to_contain_text(time_of_day(explorer.run.origin_ns + picked))
    stack, arrivals = pane.locator("table").all()
    expect(stack).to_contain_text("c10d::allreduce_")
    expect(arrivals.locator("tbody tr")).to_have_count(4)
    # nor does what the pointer is at later on cover the pane
    lanes = _box(page, "#lanes")
    page.mouse.move(spot[0], spot[1] + 1)
    expect(card).to_be_visible()
    told = _box(page, "#card")
    assert told["y"] + told["height"] <= lanes["y"] + lanes["height"]
    expect(pane).to_contain_text("launched by")
    known = page.evaluate("() => window.traceweave.view.picked.known")
    members = known["collectives"][0]["members"]
    assert sorted(one["rank"] for one in members) == [0, 1, 2, 3]
    # the line from the last rank to the others is drawn: in ink, from rank to rank
    page.keyboard.press("f")
    _drawn(page)
    assert _inked_column(page, members[-1]["start_ns"]) > 60
    pane.get_by_role("button", name=re.compile("cudaLaunch")).first.click()
    expect(pane.locator("h2")).to_contain_text("cudaLaunch")
    expect(pane).to_contain_text("launches")
    assert page.evaluate("() => window.traceweave.view.host.size") == 1
    page.evaluate("() => window.traceweave.view.host.clear()")


@nightly
def test_of_a_buffered_message_it_is_said_that_nobody_waited(
    chromium: Chromium, fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "run.duckdb"
    _, op_id = with_a_buffered_message(database_of(fixtures / "messages_mesh_gloo"), path)
    with duckdb.connect(str(path), read_only=True) as con:
        found = con.execute(
            "SELECT rank, op_id, start_ns - (SELECT min(start_ns) FROM host_ops), duration_ns"
            " FROM host_ops WHERE op_id = ?",
            [op_id],
        ).fetchone()
    assert found is not None
    op = dict(zip(("rank", "id", "start_ns", "duration_ns"), found, strict=True))
    with explore(path) as explorer, serving(explorer) as server, chromium.open(server.url) as visit:
        _drawn(visit.page)
        visit.page.evaluate(
            "(op) => window.traceweave.go(op)", {**op, "kind": "op", "name": "send"}
        )
        pane = visit.page.locator("#pane-details")
        expect(pane).to_contain_text("it was buffered, and no rank waited")
        expect(pane).not_to_contain_text("came last")


def _inked_column(page: Page, ns: int) -> int:
    """How many pixels of the column at a time have the colour of the arrows of collectives."""
    return int(
        page.evaluate(
            f"""(ns) => {{
              {_PIXELS}
              const {{ canvas, view, colours }} = window.traceweave;
              const x = Math.round(((ns - view.from) / view.length) * canvas.width);
              const data = pixels(canvas, x - 1, 3);
              const ink = [1, 3, 5].map((i) => parseInt(colours.ink.slice(i, i + 2), 16));
              let found = 0;
              for (let i = 0; i < data.length; i += 4)
                found += ink.every((part, c) => Math.abs(data[i + c] - part) < 40);
              return found;
            }}""",
            ns,
        )
    )


@nightly
def test_search_counts_and_goes_from_hit_to_hit(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("ALLREDUCE")
    told = page.locator("#search output")
    expect(told).to_have_text(re.compile(r"^\d+ hits, 2 names$"))
    starts = []
    for key in ("Enter", "Enter", "Shift+Enter"):
        before = page.evaluate("() => window.traceweave.view.picked?.id ?? 0")
        page.keyboard.press(key)
        page.wait_for_function(
            "(id) => (window.traceweave.view.picked?.id ?? id) !== id", arg=before
        )
        starts.append(page.evaluate("() => window.traceweave.view.picked.start_ns"))
        assert "AllReduce" in page.evaluate("() => window.traceweave.view.picked.name")
    assert starts[0] <= starts[1]
    assert starts[2] == starts[0]
    page.fill("#search input", "")
    expect(told).to_have_text("")
    page.keyboard.press("Escape")


RUN = """{
  origin_ns: "1706850122815562675",
  span_ns: 652e6,
  steps: [{ step: 3, start_ns: 2908047, end_ns: 633671325 }],
}"""
"""Of 05:02:02.815562675 UTC on 2024-02-02."""


@pytest.mark.parametrize(
    ("text", "run", "moment"),
    [
        ("05:02:02.907408", RUN, 91_845_325),
        ("2024-02-02 05:02:02.907408 UTC", RUN, 91_845_325),
        ("5:02:03", RUN, 184_437_325),
        ("2024-02-03T05:02:02.907408000Z", RUN, 86_400_091_845_325),
        ("1706850122907408000", RUN, 91_845_325),
        ("1706850122000000000", RUN, -815_562_675),
        (" 91.8 ms ", RUN, 91_800_000),
        ("0.0918s", RUN, 91_800_000),
        ("91800 µs", RUN, 91_800_000),
        ("91800 μs", RUN, 91_800_000),
        ("91800 us", RUN, 91_800_000),
        (".5 min", RUN, 30_000_000_000),
        # over midnight
        ("00:00:01", '{ origin_ns: "1706918399000000000", span_ns: 9e9, steps: [] }', 2e9),
        # clocks that do not count from 1970 tell no time of day
        ("5500", '{ origin_ns: "5000", span_ns: 1000, steps: [] }', 500),
        ("00:00:00.000005500", '{ origin_ns: "5000", span_ns: 1000, steps: [] }', None),
        ("AllReduce", RUN, None),
        ("128", RUN, None),
        ("16 fp", RUN, None),
        ("4 constructor", RUN, None),
        ("25:00:00", RUN, None),
        ("step 4", RUN, None),
        ("", RUN, None),
    ],
)
def test_moments_are_read_as_people_write_them(
    page: Page, text: str, run: str, moment: int | None
) -> None:
    found = _moments(page, f"parseMoment(text, {run})", text)
    assert found == (None if moment is None else {"from": moment, "until": moment})


def test_a_step_is_a_stretch_of_time(page: Page) -> None:
    found = _moments(page, f"parseMoment(text, {RUN})", "Step 3")
    assert found == {"from": 2_908_047, "until": 633_671_325}


def test_a_time_of_day_is_written_as_the_terminal_does(page: Page) -> None:
    assert _moments(page, f"timeOfDay({RUN}, 91845325)") == "05:02:02.907408"
    assert _moments(page, 'timeOfDay({ origin_ns: "5000" }, 0)') is None


def _moments(page: Page, call: str, text: str = "") -> Any:
    """What a function of page/moments.js returns."""
    return page.evaluate(
        "async (text) => { const { parseMoment, timeOfDay } ="
        f" await import(new URL('page/moments.js', location.href)); return {call}; }}",
        text,
    )


@nightly
def test_a_time_in_the_search_box_is_gone_to_and_marked(page: Page, explorer: Explorer) -> None:
    field, told = page.locator("#search input"), page.locator("#search output")
    wanted = explorer.run.origin_ns + explorer.run.span_ns // 2 // 1000 * 1000
    since = wanted - explorer.run.origin_ns
    for text in (f"{since / 1e6:.6f} ms", str(wanted), time_of_day(wanted)):
        page.evaluate("() => { window.traceweave.view.mark = null; }")
        page.keyboard.press("/")
        field.fill(text)
        expect(told).to_have_text("Enter: go there")
        page.keyboard.press("Enter")
        first, last = _view(page)
        assert page.evaluate("() => window.traceweave.view.mark") == pytest.approx(since, abs=1000)
        assert (first + last) / 2 == pytest.approx(since, abs=1000)
        expect(page.locator("#status")).to_contain_text("s from the beginning")
        assert page.evaluate("() => window.traceweave.view.search") == ""
    field.fill("step 3")
    page.keyboard.press("Enter")
    step = page.evaluate("() => window.traceweave.run.steps.find((one) => one.step === 3)")
    first, last = _view(page)
    assert last - first == pytest.approx(1.5 * (step["end_ns"] - step["start_ns"]))
    field.fill("9 h")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("not in the run")
    assert _view(page) == (first, last)
    field.fill("")
    expect(told).to_have_text("")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.evaluate("() => window.traceweave.view.mark") is None


@nightly
def test_a_selection_is_summed_and_zoomed_to(page: Page, explorer: Explorer) -> None:
    ruler = _box(page, "#ruler")
    page.mouse.move(ruler["x"] + 300, ruler["y"] + 8)
    page.mouse.down()
    page.mouse.move(ruler["x"] + 600, ruler["y"] + 8, steps=3)
    page.mouse.up()
    pane = page.locator("#pane-totals")
    expect(pane).to_contain_text("By class")
    expect(pane).to_contain_text("of 4 ranks")
    expect(pane).to_contain_text("No compute, by cause")
    selection = page.evaluate("() => window.traceweave.view.selection")
    length = selection["until"] - selection["from"]
    assert length == pytest.approx(300 / ruler["width"] * explorer.run.span_ns, rel=0.02)
    pane.get_by_role("button", name="zoom to it").click()
    first, last = _view(page)
    assert last - first == pytest.approx(1.5 * length)
    # with Shift on the lanes it is selected too
    box = _box(page, "#lanes")
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 50, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert page.evaluate("() => window.traceweave.view.selection.from") != selection["from"]


@nightly
def test_a_finding_is_shown_at_its_place_and_all_else_faintly(
    page: Page, chromium: Chromium, served: Server, explorer: Explorer
) -> None:
    page.get_by_role("button", name="Findings", exact=True).click()
    with explorer.run.asking() as asking:
        told = explorer.findings(asking)
        number = next(i for i, one in enumerate(told) if one["subject"])
        place = explorer.finding_place(asking, number)["place"]
    shown = page.locator(".finding").nth(number)
    expect(page.locator(".finding")).to_have_count(len(told))
    expect(shown).to_contain_text(told[number]["evidence"])
    shown.get_by_role("button", name="Show it").click()
    expect(page.locator("#finding")).to_contain_text(f"Only: {told[number]['title']}")
    page.wait_for_function("() => window.traceweave.view.selection")
    first, last = _view(page)
    assert first < place["start_ns"] < place["start_ns"] + place["duration_ns"] < last
    _drawn(page)
    kinds = "() => [0, 1, 2].map((one) => window.traceweave.painter.isMeant(one))"
    meant = {"waits": [False, True, False], "transfers": [False, True, False]}
    assert page.evaluate(kinds) == meant[told[number]["subject"]["kind"]]
    page.wait_for_function(f"() => location.hash.includes('finding={number}')")
    with chromium.open(page.url, 1440, 900) as other:
        expect(other.page.locator("#finding")).to_contain_text(told[number]["title"])
    page.keyboard.press("Escape")
    expect(page.locator("#finding")).to_be_hidden()
    _drawn(page)
    assert page.evaluate(kinds) == [True, True, True]


@nightly
def test_the_console_shows_rows_charts_and_the_way_to_an_operation(page: Page) -> None:
    page.get_by_role("button", name="SQL", exact=True).click()
    field = page.get_by_role("textbox", name="SQL")
    field.fill("SELECT rank, step, compute_ns FROM breakdown() ORDER BY ALL")
    page.keyboard.press("Control+Enter")
    pane = page.locator("#pane-console")
    expect(pane.locator("tbody tr")).to_have_count(20)
    expect(pane.locator("td").nth(2)).to_contain_text("ms")
    pane.get_by_role("button", name="bars").click()
    expect(pane.locator(".drawing canvas")).to_have_count(1)
    pane.get_by_role("button", name="table", exact=True).click()
    field.fill("SELECT rank, op_id, name FROM gpu_ops WHERE rank = 3 ORDER BY op_id LIMIT 1")
    page.keyboard.press("Control+Enter")
    expect(pane.locator("tbody tr")).to_have_count(1)
    pane.locator("tbody button").click()
    expect(page.locator("#pane-details")).to_be_visible()
    expect(page.locator("#pane-details")).to_contain_text(re.compile(r"op_id3\d{9}"))
    page.get_by_role("tab", name="SQL").click()
    field.fill("FROM read_text('/etc/passwd')")
    page.keyboard.press("Control+Enter")
    expect(pane.locator(".error")).to_contain_text("queries only read this database")


def test_a_query_is_stopped(page: Page) -> None:
    page.get_by_role("button", name="SQL", exact=True).click()
    page.get_by_role("textbox", name="SQL").fill(
        "SELECT count(*) FROM range(1000000000000) AS a(i)"
    )
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#pane-console .tools")).to_contain_text("stopped")


@nightly
def test_a_link_leads_back_to_the_view(page: Page, chromium: Chromium, served: Server) -> None:
    page.mouse.click(*_spot(page, 0))
    expect(page.locator("#pane-details")).to_contain_text("launched by")
    page.evaluate("() => window.traceweave.view.look(1e6, 7e6)")
    page.evaluate("() => window.traceweave.view.toggle('streams', 2)")
    page.wait_for_function("() => location.hash.includes('t=1000000-8000000')")
    address = page.url
    with chromium.open(address) as other:
        _drawn(other.page)
        expect(other.page.locator("#pane-details")).to_contain_text("launched by")
        assert _state(other.page) == _state(page)
        assert other.console == []
    page.evaluate("() => window.traceweave.view.toggle('streams', 2)")


def _state(page: Page) -> Any:
    return page.evaluate(
        "() => { const { from, until, streams, host, picked } = window.traceweave.view;"
        " return [from, until, [...streams], [...host], picked.id, picked.rank, picked.name]; }"
    )


def test_a_double_click_zooms_to_an_operation(page: Page) -> None:
    page.mouse.dblclick(*_spot(page, 1))
    picked = page.evaluate("() => window.traceweave.view.picked")
    first, last = _view(page)
    assert first < picked["start_ns"] < picked["start_ns"] + picked["duration_ns"] < last
    assert last - first == pytest.approx(1.5 * picked["duration_ns"])


@nightly
def test_the_critical_path_has_a_lane(page: Page) -> None:
    pressed = page.get_by_role("button", name="Critical path")
    pressed.click()
    expect(page.locator("#status")).to_contain_text("stretches", timeout=30_000)
    expect(page.locator("#gutter .path")).to_have_count(4)
    pressed.click()
    expect(page.locator("#gutter .path")).to_have_count(0)


@nightly
def test_the_critical_path_has_no_hole_when_all_of_it_is_in_view(
    chromium: Chromium, corpus: Path, database_of: Callable[..., Path]
) -> None:
    """Of 1,560 stretches, all on rank 0, most are shorter than a pixel."""
    path = database_of(corpus / "kineto" / "megatron_tp8")
    with explore(path) as explorer, serving(explorer) as server, chromium.open(server.url) as visit:
        page = visit.page
        page.get_by_role("button", name="Critical path").click()
        page.wait_for_function("() => window.traceweave.data.path", timeout=60_000)
        _drawn(page)
        empty, filled = page.evaluate(
            f"""() => {{
              {_PIXELS}
              {_ROW}
              const {{ canvas, view, data }} = window.traceweave;
              const row = rowOf("path", 0);
              const {{ start_ns, duration_ns }} = data.path;
              const x = (ns) => Math.round(((ns - view.from) / view.length) * canvas.width);
              const [first, end] = [x(start_ns[0]), x(start_ns.at(-1) + duration_ns.at(-1))];
              const all = pixels(canvas, first, end - first);
              const line = new Uint32Array(all.buffer, row.middle * (end - first) * 4, end - first);
              const ground = new Uint32Array(pixels(canvas, 2, 1).buffer)[row.middle];
              const empty = line.filter((pixel) => pixel === ground).length;
              return [empty, line.length - empty];
            }}"""
        )
        assert empty == 0
        assert filled > 0.8 * _box(page, "#lanes")["width"]


_ROW = """
  const rowOf = (kind, rank) => {
    const { scene } = window.traceweave;
    const { top, height } = scene.rows.find((one) => one.kind === kind && one.rank === rank);
    return { top: top - scene.scroll, middle: Math.round(top - scene.scroll + height / 2), height };
  };
"""


@nightly
def test_lanes_say_that_their_gaps_are_looked_for(chromium: Chromium, gpu_run: Path) -> None:
    with (
        explore(gpu_run) as explorer,
        serving(explorer) as server,
        chromium.open("about:blank") as visit,
    ):
        page = visit.page
        held: list[Route] = []
        page.route("**/ask/find-gaps?rank=3", lambda route: held.append(route))
        page.goto(server.url)
        page.wait_for_function("() => window.traceweave?.data.found.size === 3")
        page.wait_for_function("() => window.traceweave.data.gaps.of.size === 3")
        assert [page.evaluate("(i) => window.traceweave.data.looking(i)", i) for i in (0, 3)] == [
            False,
            True,
        ]
        assert _soft(page, 3) > 20
        held[0].continue_()
        page.wait_for_function("() => window.traceweave.data.gaps.of.size === 4")
        _drawn(page)
        assert _soft(page, 3) == 0


def _soft(page: Page, rank: int) -> int:
    """How many pixels at the left of a rank's gaps have colours of letters."""
    return int(
        page.evaluate(
            f"""(rank) => {{
              {_PIXELS}
              {_ROW}
              const {{ canvas, colours }} = window.traceweave;
              const {{ top, height }} = rowOf("gaps", rank);
              const data = pixels(canvas, 0, 100);
              const soft = [1, 3, 5].map((i) => parseInt(colours.soft.slice(i, i + 2), 16));
              let found = 0;
              for (let i = top * 400; i < (top + height) * 400; i += 4)
                found += soft.every((part, c) => Math.abs(data[i + c] - part) < 50);
              return found;
            }}""",
            rank,
        )
    )


@nightly
def test_perfetto_gets_the_selection_by_its_own_messages(
    page: Page, visit: Visit, explorer: Explorer
) -> None:
    """A page in place of Perfetto's, which cannot be reached here."""
    stand_in = """
      <script>
        addEventListener("message", (event) => {
          window.heard = window.heard || [];
          if (event.data === "PING") {
            window.heard.push("PING");
            if (window.heard.length > 2) event.source.postMessage("PONG", event.origin);
          } else window.trace = event.data.perfetto;
        });
      </script>"""
    context = page.context
    context.route(
        "https://ui.perfetto.dev/**",
        lambda route: route.fulfill(body=stand_in, content_type="text/html"),
    )
    page.evaluate("() => window.traceweave.view.select({ from: 5e6, until: 9e6, ranks: [1] })")
    with context.expect_page() as opened:
        page.get_by_role("button", name="Open in Perfetto").click()
    other = opened.value
    other.wait_for_function("() => window.trace?.buffer.byteLength > 0")
    assert other.evaluate("() => window.trace.title") == explorer.path.name
    assert other.evaluate("() => window.trace.fileName") == f"{explorer.path.name}.pftrace"
    assert other.evaluate("() => window.heard.length") > 2
    size = other.evaluate("() => window.trace.buffer.byteLength")
    assert size == len(explorer.trace(Stretch(5_000_000, 9_000_000, 1), [1], host=False))
    expect(page.locator("#status")).to_contain_text("Perfetto has the trace")
    other.close()
    # nothing but the click has asked for anything elsewhere
    assert [one for one in visit.requested if not one.startswith("http://127.0.0.1")] == [
        "https://ui.perfetto.dev/"
    ]


@nightly
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1024, False), (1920, True)])
def test_the_page_fits_and_works_at_other_widths(
    chromium: Chromium, served: Server, width: int, dark: bool
) -> None:
    with chromium.open(served.url, width, 800, dark=dark) as visit:
        page = visit.page
        _drawn(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.mouse.click(*_spot(page, 1))
        expect(page.locator("#pane-details")).to_contain_text("came last")
        lanes = _box(page, "#lanes")
        assert lanes["width"] > width / 2
        assert _box(page, "#pane-details dd >> nth=0")["height"] < 30  # on one line
        assert lanes["height"] > 150
        for name in ("SQL", "Open in Perfetto", "Copy link"):
            button = page.get_by_role("button", name=name, exact=True).bounding_box()
            assert button is not None
            assert 0 <= button["x"] < button["x"] + button["width"] <= width
        host = page.get_by_role("button", name="host threads of rank 0", exact=True)
        beside = page.get_by_role("button", name="streams of rank 0", exact=True).bounding_box()
        shown = host.bounding_box()
        assert shown is not None
        assert beside is not None
        assert beside["x"] + beside["width"] <= shown["x"] < shown["x"] + shown["width"]
        assert shown["x"] + shown["width"] <= lanes["x"]
        assert host.get_attribute("title")
        assert host.evaluate("(one) => getComputedStyle(one).borderTopWidth") == "1px"
        assert visit.console == []


@nightly
def test_hostile_names_are_text(chromium: Chromium, gpu_run: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{HOSTILE.replace('/', '_')}.duckdb"
    path.write_bytes(gpu_run.read_bytes())
    with duckdb.connect(path) as con:
        con.execute("UPDATE base.gpu_ops SET name = ?, class = ?", [HOSTILE, HOSTILE])
        con.execute("UPDATE base.host_ops SET name = ?", [HOSTILE])
        con.execute("UPDATE base.rank_sources SET host = ?, gpu_name = ?", [HOSTILE, HOSTILE])
        con.execute("UPDATE groups SET description = ?", [HOSTILE])
    with explore(path) as explorer, serving(explorer) as server, chromium.open(server.url) as visit:
        page = visit.page
        _drawn(page)
        page.mouse.click(*_spot(page, 1))
        expect(page.locator("#pane-details h2")).to_have_text(HOSTILE)
        expect(page.locator("#card")).to_contain_text(HOSTILE)
        page.keyboard.press("m")
        expect(page.locator("#pane-totals")).to_contain_text(HOSTILE)
        page.get_by_role("button", name="host threads of rank 0", exact=True).click()
        page.wait_for_function("() => window.traceweave.data.host.has(0)")
        page.get_by_role("button", name="SQL", exact=True).click()
        page.get_by_role("textbox", name="SQL").fill(
            'SELECT DISTINCT name, name AS "<b>" FROM gpu_ops'
        )
        page.keyboard.press("Control+Enter")
        expect(page.locator("#pane-console td").first).to_have_text(HOSTILE)
        assert page.locator("img, main b, td b").count() == 0
        assert visit.console == []
        assert all(one.startswith(server.url) for one in visit.requested)
