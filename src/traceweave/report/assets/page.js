// Draws the charts, makes tables sort, filter and export, and queries copyable. Without it the page shows text and tables.
(() => {
  "use strict";

  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const drawn = new Map();
  const timelines = [];

  function redraw(name) {
    const { chart, element, state } = drawn.get(name);
    chart.resize();
    chart.setOption(TraceweaveCharts.option(specs[name], state, element), { notMerge: true });
  }

  function redrawAll() {
    for (const name of drawn.keys()) redraw(name);
    for (const timeline of timelines) timeline.draw();
  }

  function choice(label, options, chosen, pick) {
    const group = document.createElement("span");
    group.className = "choice";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", label);
    options.forEach((option, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = option;
      button.setAttribute("aria-pressed", String(i === chosen));
      button.addEventListener("click", () => {
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
        pick(i);
      });
      group.append(button);
    });
    return group;
  }

  function select(label, options, pick) {
    const list = document.createElement("select");
    list.setAttribute("aria-label", label);
    options.forEach((option, i) => list.add(new Option(option, String(i))));
    list.addEventListener("change", () => pick(Number(list.value)));
    return list;
  }

  function addControls(name, state) {
    const spec = specs[name];
    const place = document.querySelector(`[data-controls="${CSS.escape(name)}"]`);
    const labels = spec.variants.map((variant) => variant.label);
    const pick = (i) => {
      state.variant = i;
      redraw(name);
    };
    if (labels.length > 5 || (spec.stacked && labels.length > 1)) place.append(select("Shown", labels, pick));
    else if (labels.length > 1) place.append(choice("Shown", labels, 0, pick));
    if (spec.stacked) {
      const orders = ["By rank", "Longest first", ...spec.series.map((series) => `Most ${series.label.toLowerCase()} first`)];
      place.append(
        select("Order", orders, (i) => {
          state.order = i;
          redraw(name);
        }),
        choice("Unit", ["Time", "Share"], 0, (i) => {
          state.share = i === 1;
          redraw(name);
        }),
      );
    }
  }

  // Sharp at any size, but a node per cell: thousands of them would take seconds to draw.
  function rendererOf(spec) {
    return spec.kind === "heat" && spec.rows.length * spec.columns.length > 600 ? "canvas" : "svg";
  }

  const watch = new ResizeObserver((entries) => {
    for (const entry of entries) redraw(entry.target.dataset.chart);
  });

  function drawChart(element) {
    const name = element.dataset.chart;
    const state = { variant: 0, share: false, order: 0 };
    drawn.set(name, { chart: echarts.init(element, null, { renderer: rendererOf(specs[name]) }), element, state });
    addControls(name, state);
    redraw(name);
    watch.observe(element);
  }

  function drawTimeline(element) {
    const name = element.dataset.timeline;
    const place = document.querySelector(`[data-controls="${CSS.escape(name)}"]`);
    const timeline = TraceweaveTimeline.create(element, place, specs[name], choice);
    timelines.push(timeline);
    let width = element.clientWidth;
    new ResizeObserver(() => {
      if (element.clientWidth !== width) timeline.draw();
      width = element.clientWidth;
    }).observe(element);
  }

  // One after the other, so that the page scrolls and takes clicks while the rest is still being drawn.
  function drawCharts() {
    root.classList.add("drawn");
    const waiting = [...document.querySelectorAll("[data-chart], [data-timeline]")];
    const drawNext = () => {
      const element = waiting.shift();
      if (element?.dataset.chart) drawChart(element);
      else if (element) drawTimeline(element);
      return element;
    };
    const goOn = () => drawNext() && setTimeout(goOn);
    goOn();
    document.querySelectorAll("[data-place]").forEach((link) => link.addEventListener("click", () => {
      while (!timelines.length && drawNext());
      timelines[0].go(JSON.parse(link.dataset.place));
    }));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
    addEventListener("beforeprint", () => {
      while (drawNext());
      root.classList.add("printing");
      redrawAll();
      document.querySelectorAll(".chart svg").forEach(fitPaper);
    });
    addEventListener("afterprint", () => {
      root.classList.remove("printing");
      redrawAll();
    });
  }

  // A drawing that knows its own size can be made smaller as a whole where the paper is narrower.
  function fitPaper(svg) {
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  }

  // Missing values stay last whichever way the column is sorted.
  function sortBy(table, column, descending) {
    const body = table.tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.sort ?? cell.querySelector("summary")?.textContent ?? cell.textContent;
    };
    const number = [...table.tHead.rows].at(-1).cells[column].classList.contains("num");
    const compare = number ? (a, b) => Number(a) - Number(b) : (a, b) => a.localeCompare(b, "en", { numeric: true });
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      return descending ? compare(b, a) : compare(a, b);
    });
    body.append(...rows.map(([, row]) => row));
  }

  function makeSortable(table) {
    const heads = [...[...table.tHead.rows].at(-1).cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const first = head.classList.contains("num") ? "descending" : "ascending";
        const second = first === "descending" ? "ascending" : "descending";
        const next = now === first ? second : first;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", next);
        sortBy(table, column, next === "descending");
      });
    });
  }

  // The whole value of a cell, as a program wants it: numbers in their base unit, names in full.
  function value(cell, number) {
    if (number) return cell.dataset.sort ?? cell.textContent;
    if (cell.dataset.sort === "") return "";
    const name = cell.querySelector("details")?.lastChild.textContent ?? cell.textContent;
    // a spreadsheet would take a name that begins like this for a formula
    return /^[=+\-@\t\r]/.test(name) ? `'${name}` : name;
  }

  function headings(table) {
    const rows = [...table.tHead.rows];
    const spans = rows.length > 1 ? [...rows[0].cells].flatMap((cell) => Array(cell.colSpan).fill(cell.textContent)) : [];
    return [...rows.at(-1).cells].map((head, i) => {
      const unit = head.querySelector(".unit")?.textContent;
      const label = [spans[i], head.querySelector("button").firstChild.textContent.trim()].filter(Boolean).join(" ");
      return unit ? `${label} (${unit === "%" ? "fraction" : unit.endsWith("B") ? "bytes" : "ns"})` : label;
    });
  }

  function csv(table) {
    const numbers = [...[...table.tHead.rows].at(-1).cells].map((head) => head.classList.contains("num"));
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const lines = rows.map((row) => [...row.cells].map((cell, i) => value(cell, numbers[i])));
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    return [headings(table), ...lines].map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  }

  function save(table) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
    link.download = `${table.id.replace(/^table-/, "")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function filter(table, wanted, count) {
    const rows = [...table.tBodies[0].rows];
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = [...row.cells].map((cell) => cell.querySelector("details")?.lastChild.textContent ?? cell.textContent);
      const line = text.join(" ").toLowerCase();
      row.hidden = !words.every((word) => line.includes(word));
    }
    count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  }

  function addTools(table) {
    const place = document.querySelector(`[data-tools="${CSS.escape(table.id)}"]`);
    const name = table.caption.textContent;
    const box = document.createElement("input");
    const count = document.createElement("span");
    const button = document.createElement("button");
    Object.assign(box, { type: "search", placeholder: "Filter" });
    box.setAttribute("aria-label", `Filter rows of “${name}”`);
    count.setAttribute("role", "status");
    box.addEventListener("input", () => filter(table, box.value, count));
    Object.assign(button, { type: "button", textContent: "CSV", title: "Save the rows shown; times in ns" });
    button.setAttribute("aria-label", `Save “${name}” as CSV`);
    button.addEventListener("click", () => save(table));
    place.prepend(box, count, button);
  }

  async function copy(button) {
    const code = document.getElementById(button.dataset.copy);
    const status = document.getElementById("status");
    try {
      await navigator.clipboard.writeText(code.textContent);
      status.textContent = "Copied";
      button.firstChild.textContent = "Copied";
      setTimeout(() => (button.firstChild.textContent = "Copy"), 1500);
    } catch {
      getSelection().selectAllChildren(code);
      status.textContent = "Selected; copy with the keyboard";
    }
  }

  document.querySelectorAll("table").forEach((table) => {
    makeSortable(table);
    addTools(table);
  });
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button)));
  drawCharts();
})();
