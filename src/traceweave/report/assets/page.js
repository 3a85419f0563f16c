// Draws the charts and makes tables sortable and queries copyable. Without it the page shows text and tables.
(() => {
  "use strict";

  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const drawn = new Map();

  function redraw(name) {
    const { chart, element, state } = drawn.get(name);
    chart.resize();
    chart.setOption(TraceweaveCharts.option(specs[name], state, element), { notMerge: true });
  }

  function redrawAll() {
    for (const name of drawn.keys()) redraw(name);
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
      place.append(
        choice("Unit", ["Time", "Share"], 0, (i) => {
          state.share = i === 1;
          redraw(name);
        }),
      );
    }
  }

  function drawCharts() {
    root.classList.add("drawn");
    const watch = new ResizeObserver((entries) => {
      for (const entry of entries) redraw(entry.target.dataset.chart);
    });
    for (const element of document.querySelectorAll("[data-chart]")) {
      const name = element.dataset.chart;
      const state = { variant: 0, share: false };
      drawn.set(name, { chart: echarts.init(element, null, { renderer: "svg" }), element, state });
      addControls(name, state);
      redraw(name);
      watch.observe(element);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
    addEventListener("beforeprint", () => {
      root.classList.add("printing");
      redrawAll();
    });
    addEventListener("afterprint", () => {
      root.classList.remove("printing");
      redrawAll();
    });
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

  document.querySelectorAll("table").forEach(makeSortable);
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button)));
  drawCharts();
})();
