// One step of some ranks on a canvas: chooses step and ranks, zooms, pans, and tells what the pointer is at.
// Times are integer nanoseconds from the beginning of the step. Names come from the trace and are only ever drawn as text.
const TraceweaveTimeline = (() => {
  "use strict";

  const SHORTEST_VIEW = 200;
  const { text, tip, bytes } = TraceweaveCharts;
  const { gutterOf, innerOf, layout, paint, toNs } = TraceweaveTimelineDrawing;

  function swatches(spec) {
    const causes = spec.causes.map((cause) => [`gap: ${cause}`, `var(--cause-${cause}, var(--cause-unknown))`, 1]);
    const list = document.createElement("ul");
    list.className = "swatches";
    for (const [label, colour, opacity] of [
      ["compute", "var(--compute)", 1],
      ["transfer", "var(--exposed-comm)", 1],
      ["waiting for the last rank", "var(--exposed-comm)", 0.35],
      ["copies", "var(--exposed-memory)", 1],
      ...causes,
    ]) {
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      Object.assign(swatch.style, { background: colour, opacity });
      item.append(swatch, label);
      list.append(item);
    }
    return list;
  }

  function button(label, meaning, press) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.setAttribute("aria-label", meaning);
    made.title = meaning;
    made.addEventListener("click", press);
    return made;
  }

  function describe(spec, { row, i }) {
    const { lane } = row;
    const lines = [
      ["Begins at", text(lane.start[i], "duration")],
      ["Lasts", text(lane.duration[i], "duration")],
    ];
    if (row.kind === "gaps") {
      if (lane.host[i] >= 0) lines.push(["Host meanwhile", spec.names[lane.host[i]]]);
      return tip(`Gap: ${spec.causes[lane.cause[i]]}`, [["Rank", String(lane.rank)], ...lines]);
    }
    lines.unshift(["Rank", `${lane.rank}, ${lane.label}`]);
    const call = lane.byOp.get(i);
    if (call) {
      lines.push(["Collective", call.bytes === null ? call.op : `${call.op}, ${bytes(call.bytes)}`]);
      if (call.wait !== null) {
        const whom = call.wait && !call.unsure ? ` for rank ${call.last}` : "";
        lines.push([`Waits${whom}`, text(call.wait, "duration")]);
        lines.push(["Transfer", text(lane.duration[i] - call.wait, "duration")]);
        if (call.unsure) lines.push(["Wait is below what the clocks can tell", ""]);
      }
    }
    const many = lane.many.get(i);
    const name = spec.names[lane.name[i]];
    return tip(many ? `${many} short operations, the longest: ${name}` : name, lines);
  }

  function rankBoxes(spec, shown, redraw) {
    const boxes = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = "Ranks";
    boxes.append(legend);
    for (const { rank, why } of spec.ranks) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = shown.has(rank);
      box.addEventListener("change", () => {
        if (box.checked) shown.add(rank);
        else shown.delete(rank);
        redraw();
      });
      label.append(box, ` ${rank}`);
      if (why) label.title = why;
      boxes.append(label);
    }
    return boxes;
  }

  function create(host, place, spec, choice) {
    const canvas = document.createElement("canvas");
    const card = document.createElement("div");
    const status = document.getElementById("status");
    const shown = new Set(spec.ranks.filter((rank) => rank.shown).map((rank) => rank.rank));
    let step = spec.steps[0];
    let view = [0, step.length];
    let rows = [];
    let frame = 0;
    let held = null;
    canvas.setAttribute("aria-hidden", "true");
    card.className = "card";
    card.hidden = true;
    host.append(canvas, card);

    const gutter = () => gutterOf(host.clientWidth);
    const inner = () => innerOf(host.clientWidth);
    const nsAt = (x) => toNs({ view, width: host.clientWidth }, x);

    function draw() {
      cancelAnimationFrame(frame);
      frame = 0;
      const placed = layout(spec.ranks, step, shown);
      rows = placed.rows;
      host.style.height = `${placed.height}px`;
      paint(canvas, host, spec, view, rows, placed.height);
    }

    const later = () => (frame = frame || requestAnimationFrame(draw));

    function look(from, span) {
      const length = Math.min(Math.max(span, SHORTEST_VIEW), step.length);
      const start = Math.min(Math.max(from, 0), step.length - length);
      view = [start, start + length];
      hide();
      later();
    }

    function zoom(factor, ns = (view[0] + view[1]) / 2) {
      const span = (view[1] - view[0]) * factor;
      look(ns - ((ns - view[0]) / (view[1] - view[0])) * span, span);
    }

    const pan = (part) => look(view[0] + part * (view[1] - view[0]), view[1] - view[0]);
    const say = () => (status.textContent = `Shown: ${text(view[0], "duration")} to ${text(view[1], "duration")}`);

    // The innermost operation or gap at a point: the last that began before it.
    function find(x, y) {
      const row = rows.find((one) => one.lane && y >= one.top && y < one.top + one.height);
      if (!row || x < gutter()) return null;
      const [low, high] = [nsAt(x - 2), nsAt(x + 2)];
      for (let i = row.lane.start.length - 1; i >= 0; i -= 1) {
        if (row.lane.start[i] <= high && row.lane.start[i] + row.lane.duration[i] >= low) return { row, i };
      }
      return null;
    }

    function hide() {
      card.hidden = true;
    }

    function hover(event) {
      const box = host.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const found = find(x, y);
      if (!found) return hide();
      card.replaceChildren(describe(spec, found));
      card.hidden = false;
      card.style.left = `${Math.max(Math.min(x + 14, box.width - card.offsetWidth - 4), 0)}px`;
      card.style.top = `${y + 18}px`;
    }

    host.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = [event.clientX, view[0]];
      try {
        host.setPointerCapture(event.pointerId);
      } catch {
        // a pointer that is gone already cannot be captured
      }
      hide();
    });
    host.addEventListener("pointermove", (event) => {
      if (!held) return hover(event);
      look(held[1] - ((event.clientX - held[0]) / inner()) * (view[1] - view[0]), view[1] - view[0]);
    });
    for (const name of ["pointerup", "pointercancel"]) host.addEventListener(name, () => (held = null));
    host.addEventListener("pointerleave", hide);
    host.addEventListener("dblclick", (event) => {
      const box = host.getBoundingClientRect();
      const found = find(event.clientX - box.left, event.clientY - box.top);
      if (!found) return;
      const { lane } = found.row;
      look(lane.start[found.i] - 0.25 * lane.duration[found.i], 1.5 * lane.duration[found.i]);
    });
    // The page must still scroll past the timeline: the wheel zooms once the timeline has the focus, or with Ctrl.
    host.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && document.activeElement !== host) return;
      event.preventDefault();
      if (sideways) return pan(event.deltaX / inner());
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), nsAt(event.clientX - host.getBoundingClientRect().left));
    }, { passive: false });
    const whole = () => look(0, step.length);
    const keys = {
      ArrowLeft: () => pan(-0.15),
      ArrowRight: () => pan(0.15),
      "+": () => zoom(0.6),
      "=": () => zoom(0.6),
      "-": () => zoom(1 / 0.6),
      "0": whole,
      Home: whole,
      Escape: hide,
    };
    host.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
      say();
    });

    const redraw = () => {
      hide();
      draw();
    };

    function controls() {
      if (spec.steps.length > 1) {
        place.append(
          choice("Step", spec.steps.map((one) => one.label), 0, (i) => {
            step = spec.steps[i];
            whole();
          }),
        );
      }
      const ways = document.createElement("span");
      ways.className = "choice";
      const told = (act) => () => {
        act();
        say();
      };
      ways.append(
        button("−", "Zoom out", told(() => zoom(2))),
        button("+", "Zoom in", told(() => zoom(0.5))),
        button("◂", "Earlier", told(() => pan(-0.25))),
        button("▸", "Later", told(() => pan(0.25))),
        button("Whole step", "Show the whole step", told(whole)),
      );
      place.append(ways, rankBoxes(spec, shown, redraw), swatches(spec));
    }

    for (const lane of spec.steps.flatMap((one) => one.lanes)) {
      lane.many = new Map(lane.many);
      lane.byOp = new Map(lane.calls.map(([i, op, size, wait, last, unsure]) => [i, { op, bytes: size, wait, last, unsure }]));
    }
    controls();
    draw();
    return draw;
  }

  return { create };
})();
