// One step of some ranks on a canvas: chooses step and ranks, zooms, pans, and tells what the pointer or the keyboard is at.
// Times are integer nanoseconds from the beginning of the step. Names come from the trace and are only ever drawn as text.
const TraceweaveTimeline = (() => {
  "use strict";

  const SHORTEST_VIEW = 200;
  const COMMUNICATION = 1; // among the categories of operations
  const { text } = TraceweaveCharts;
  const { View, toNs, toX } = TraceweaveTimelineView;
  const { gutterOf, innerOf, layout, paint } = TraceweaveTimelineDrawing;
  const { add, describe } = TraceweaveTimelineControls;

  class Timeline {
    constructor(host, spec) {
      Object.assign(this, { host, spec, step: spec.steps[0], rows: [], frame: 0, cursor: null, stepButtons: [] });
      this.shown = new Set(spec.ranks.filter((rank) => rank.shown).map((rank) => rank.rank));
      this.view = this.viewOf(this.step);
      this.canvas = document.createElement("canvas");
      this.card = document.createElement("div");
      this.status = document.getElementById("status");
      this.canvas.setAttribute("aria-hidden", "true");
      this.card.className = "card";
      this.card.hidden = true;
      host.append(this.canvas, this.card);
    }

    viewOf(step) {
      const view = new View(step.length, SHORTEST_VIEW);
      view.addEventListener("change", () => {
        this.hide();
        this.frame = this.frame || requestAnimationFrame(() => this.draw());
      });
      return view;
    }

    // Where the lanes begin, and how wide they are.
    get left() {
      return gutterOf(this.host.clientWidth);
    }

    get width() {
      return innerOf(this.host.clientWidth);
    }

    draw() {
      cancelAnimationFrame(this.frame);
      this.frame = 0;
      const placed = layout(this.spec.ranks, this.step, this.shown);
      this.rows = placed.rows;
      this.host.style.height = `${placed.height}px`;
      paint(this.canvas, this.host, this.spec, this.view, this.rows);
    }

    redraw() {
      this.hide();
      this.cursor = null;
      this.draw();
    }

    choose(step) {
      this.step = step;
      this.cursor = null;
      this.view = this.viewOf(step);
      this.view.whole();
    }

    // To a place that something on the page refers to: its step, its ranks, and a stretch around it.
    go({ step, ranks, start, duration }) {
      this.stepButtons[step]?.click();
      for (const rank of ranks) this.check(rank);
      this.redraw();
      this.view.look(start - duration, 3 * duration);
      this.say();
    }

    say() {
      this.status.textContent = `Shown: ${text(this.view.from, "duration")} to ${text(this.view.until, "duration")}`;
    }

    hide() {
      this.card.hidden = true;
    }

    // The innermost operation or gap at a point: the last that began before it.
    find(x, y) {
      const row = this.rows.find((one) => one.lane && y >= one.top && y < one.top + one.height);
      if (!row || x < this.left) return null;
      const [low, high] = [x - 2, x + 2].map((one) => this.timeAt(one));
      for (let i = row.lane.start.length - 1; i >= 0; i -= 1) {
        if (row.lane.start[i] <= high && row.lane.start[i] + row.lane.duration[i] >= low) return { row, i };
      }
      return null;
    }

    timeAt(x) {
      return toNs(this.view, this.width, x - this.left);
    }

    show(found, x, y) {
      this.card.replaceChildren(describe(this.spec, found));
      this.card.hidden = false;
      this.card.style.left = `${Math.max(Math.min(x, this.host.clientWidth - this.card.offsetWidth - 4), 0)}px`;
      this.card.style.top = `${y}px`;
    }

    // Steps to a neighbouring operation of the row, or to the one at the same time in a neighbouring row, and tells it.
    walk(rows, ops) {
      const lanes = this.rows.filter((row) => row.lane && row.lane.start.length);
      if (!lanes.length) return;
      const old = this.cursor && lanes.find((row) => row.lane === this.cursor.lane);
      const place = old ? Math.min(Math.max(lanes.indexOf(old) + rows, 0), lanes.length - 1) : 0;
      const { lane } = lanes[place];
      const at = old ? old.lane.start[this.cursor.i] : this.view.from;
      let i = lane.start.findLastIndex((start) => start <= at);
      if (old && !rows) i = this.cursor.i + ops;
      this.cursor = { lane, i: Math.min(Math.max(i, 0), lane.start.length - 1) };
      this.tell(lanes[place]);
    }

    tell(row) {
      const { lane, i } = this.cursor;
      const [from, to] = [lane.start[i], lane.start[i] + lane.duration[i]];
      const { view } = this;
      if (to < view.from || from > view.until) view.look(from - view.length / 4, view.length);
      const x = this.left + Math.max(toX(view, this.width, from), 0);
      this.show({ row, i }, x + 4, row.top + row.height + 4);
      const words = (line) => [...line.querySelectorAll("span")].map((part) => part.textContent).join(" ") || line.textContent;
      const lines = [...this.card.querySelectorAll(".tip > *")].map(words);
      this.status.textContent = lines.join(", ");
    }
  }

  function listenToPointer(timeline) {
    const { host } = timeline;
    let held = null;
    const place = (event) => {
      const box = host.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    host.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = [event.clientX, timeline.view.from];
      try {
        host.setPointerCapture(event.pointerId);
      } catch {
        // a pointer that is gone already cannot be captured
      }
      timeline.hide();
    });
    host.addEventListener("pointermove", (event) => {
      const { view } = timeline;
      if (held) return view.look(held[1] - ((event.clientX - held[0]) / timeline.width) * view.length, view.length);
      const [x, y] = place(event);
      const found = timeline.find(x, y);
      if (found) timeline.show(found, x + 14, y + 18);
      else timeline.hide();
    });
    for (const name of ["pointerup", "pointercancel"]) host.addEventListener(name, () => (held = null));
    host.addEventListener("pointerleave", () => timeline.hide());
    host.addEventListener("dblclick", (event) => {
      const found = timeline.find(...place(event));
      if (!found) return;
      const { lane } = found.row;
      timeline.view.focus(lane.start[found.i], lane.duration[found.i]);
    });
  }

  // The page must still scroll past the timeline: the wheel zooms once the timeline has the focus, or with Ctrl, and is
  // given back where there is nothing to zoom out of, and on Escape.
  function listenToWheel(timeline) {
    const { host } = timeline;
    const listen = (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && document.activeElement !== host) return;
      if (timeline.view.isWhole && !event.ctrlKey && (sideways || event.deltaY > 0)) return;
      event.preventDefault();
      if (sideways) return timeline.view.pan(event.deltaX / timeline.width);
      timeline.view.wheel(event.deltaY, timeline.timeAt(event.clientX - host.getBoundingClientRect().left));
    };
    host.addEventListener("wheel", listen, { passive: false });
  }

  function listenToKeys(timeline) {
    const views = {
      ArrowLeft: () => timeline.view.pan(-0.15),
      ArrowRight: () => timeline.view.pan(0.15),
      "+": () => timeline.view.zoom(0.6),
      "=": () => timeline.view.zoom(0.6),
      "-": () => timeline.view.zoom(1 / 0.6),
      0: () => timeline.view.whole(),
      Home: () => timeline.view.whole(),
    };
    const steps = {
      n: () => timeline.walk(0, 1),
      p: () => timeline.walk(0, -1),
      ArrowDown: () => timeline.walk(1, 0),
      ArrowUp: () => timeline.walk(-1, 0),
      Escape: () => {
        timeline.hide();
        timeline.host.blur();
      },
    };
    timeline.host.addEventListener("keydown", (event) => {
      const act = views[event.key] || steps[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
      event.preventDefault();
      act();
      if (views[event.key]) timeline.say();
    });
  }

  // Communication of which it is not known what is waiting and what transfer.
  function unsplit({ category, many, byOp }) {
    const unknown = (i) => category[i] === COMMUNICATION && !many.has(i) && !byOp.get(i)?.whole;
    return new Set([...category.keys()].filter(unknown));
  }

  function create(host, place, spec, choice) {
    for (const lane of spec.steps.flatMap((one) => one.lanes)) {
      lane.many = new Map(lane.many);
      lane.byOp = new Map(lane.calls.map(([i, op, size, wait, whole, last, unsure]) => [i, { op, bytes: size, wait, whole, last, unsure }]));
      lane.unsplit = unsplit(lane);
    }
    const timeline = new Timeline(host, spec);
    listenToPointer(timeline);
    listenToWheel(timeline);
    listenToKeys(timeline);
    add(timeline, place, choice);
    timeline.draw();
    return timeline;
  }

  return { create };
})();
