// The names of the rows beside the lanes, as buttons that unfold ranks; only those in view are on the page.

export class Gutter {
  constructor(place, view, run) {
    Object.assign(this, { place, view, run, shown: "" });
    place.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      view.toggle(button.dataset.what, Number(button.dataset.rank));
    });
  }

  draw(rows, scroll, height) {
    const seen = rows.filter((row) => row.top + row.height >= scroll && row.top <= scroll + height);
    const key = seen.map((row) => `${row.kind}${row.rank} ${row.label} ${row.top} ${row.height}`).join("|") + [...this.view.streams] + "|" + [...this.view.host];
    if (key === this.shown) return;
    const focused = this.place.contains(document.activeElement) ? document.activeElement.id : null;
    this.shown = key;
    this.place.replaceChildren(...seen.map((row) => this.row(row)));
    if (focused) document.getElementById(focused)?.focus();
  }

  row(row) {
    const line = document.createElement("div");
    line.className = `row ${row.kind}`;
    line.style.top = `${row.top}px`;
    line.style.height = `${row.height}px`;
    if (row.kind !== "rank") {
      line.textContent = row.label;
      line.title = row.label;
      return line;
    }
    const label = this.toggle("streams", row.rank, `rank ${row.rank}`, `streams of rank ${row.rank}`);
    label.title = this.told(row.rank);
    line.append(label);
    if (row.height >= 11) line.append(this.toggle("host", row.rank, "host", `host threads of rank ${row.rank}`));
    return line;
  }

  toggle(what, rank, text, label) {
    const button = document.createElement("button");
    button.type = "button";
    button.id = `${what}-${rank}`;
    Object.assign(button.dataset, { what, rank });
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.setAttribute("aria-expanded", String(this.view[what].has(rank)));
    return button;
  }

  told(rank) {
    const one = this.run.rankOf.get(rank);
    return [one.host, one.gpu_name, one.pid === null ? "" : `pid ${one.pid}`, one.clock && `clock: ${one.clock}`].filter(Boolean).join(" · ");
  }
}
