// What stands around the drawing of the timeline: choices, buttons, legend, and the card that tells what is pointed at.
const TraceweaveTimelineControls = (() => {
  "use strict";

  const { text, tip } = TraceweaveCharts;
  const { PATH, EXPOSED, colourOf } = TraceweaveTimelineView;
  const exposes = (cause) => cause.startsWith(EXPOSED);

  function swatches(spec) {
    const causes = spec.causes.map((cause) => [exposes(cause) ? cause : `idle: ${cause}`, `var(--${colourOf(cause)}, var(--cause-unknown))`, 1]);
    const host = spec.kinds.filter((kind) => PATH[kind].startsWith("cause-"));
    const path = host.map((kind) => [`critical path: ${kind}`, `var(--${PATH[kind]})`, 1]);
    const unsplit = spec.steps.some((step) => step.lanes.some((lane) => lane.unsplit.size)) ? [["waiting or transfer", "var(--exposed-unsplit)", 1]] : [];
    const list = document.createElement("ul");
    list.className = "swatches";
    for (const [label, colour, opacity] of [
      ["compute", "var(--compute)", 1],
      ["transfer", "var(--exposed-comm)", 1],
      ["waiting for the last rank", "var(--exposed-comm)", 0.35],
      ...unsplit,
      ["copies", "var(--exposed-memory)", 1],
      ...path,
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
      const cause = spec.causes[lane.cause[i]];
      if (lane.what[i] >= 0) lines.push([exposes(cause) ? "Operation" : "Host activity", spec.names[lane.what[i]]]);
      return tip(exposes(cause) ? cause.replace(EXPOSED, "Exposed communication: ") : `Idle: ${cause}`, [["Rank", String(lane.rank)], ...lines]);
    }
    if (row.kind === "path") {
      return tip(`Critical path: ${spec.kinds[lane.kind[i]]}`, [["Rank", String(lane.rank)], ...lines]);
    }
    lines.unshift(["Rank", `${lane.rank}, ${lane.label}`]);
    const call = lane.byOp.get(i);
    if (call) {
      lines.push(["Collective", call.bytes === null ? call.op : `${call.op}, ${text(call.bytes, "bytes")}`]);
      if (call.wait !== null) {
        const whom = call.wait && call.last !== null ? ` for rank ${call.last}` : "";
        lines.push([`Waits${whom}`, text(call.wait, "duration")]);
        lines.push([call.whole ? "Transfer" : "Waiting or transfer", text(lane.duration[i] - call.wait, "duration")]);
        if (call.unsure) lines.push(["Wait is below the clock resolution", ""]);
        else if (call.last === null) lines.push(["Who came last is below the clock resolution", ""]);
      } else lines.push(["Waiting or transfer, not known which", ""]);
    }
    const many = lane.many.get(i);
    const name = spec.names[lane.name[i]];
    return tip(many ? `${many} short operations, the longest: ${name}` : name, lines);
  }

  function rankBoxes(timeline) {
    const { spec, shown } = timeline;
    const boxes = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = "Ranks";
    boxes.append(legend);
    const boxOf = new Map();
    for (const { rank, why } of spec.ranks) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = shown.has(rank);
      box.addEventListener("change", () => {
        if (box.checked) shown.add(rank);
        else shown.delete(rank);
        timeline.redraw();
      });
      boxOf.set(rank, box);
      label.append(box, ` ${rank}`);
      if (why) label.title = why;
      boxes.append(label);
    }
    timeline.check = (rank) => {
      shown.add(rank);
      boxOf.get(rank).checked = true;
    };
    return boxes;
  }

  function stepChoice(timeline, choice) {
    const { steps } = timeline.spec;
    const buttons = choice("Step", steps.map((one) => one.label), 0, (i) => timeline.choose(steps[i]));
    timeline.stepButtons = buttons.children;
    return buttons;
  }

  function viewButtons(timeline) {
    const whole = `whole ${timeline.spec.unit}`;
    const ways = document.createElement("span");
    ways.className = "choice";
    const told = (act) => () => {
      act();
      timeline.say();
    };
    ways.append(
      button("−", "Zoom out", told(() => timeline.view.zoom(2))),
      button("+", "Zoom in", told(() => timeline.view.zoom(0.5))),
      button("◂", "Earlier", told(() => timeline.view.pan(-0.25))),
      button("▸", "Later", told(() => timeline.view.pan(0.25))),
      button(whole.replace("w", "W"), `Show the ${whole}`, told(() => timeline.view.whole())),
    );
    return ways;
  }

  function add(timeline, place, choice) {
    if (timeline.spec.steps.length > 1) place.append(stepChoice(timeline, choice));
    place.append(viewButtons(timeline), rankBoxes(timeline), swatches(timeline.spec));
  }

  return { add, describe };
})();
