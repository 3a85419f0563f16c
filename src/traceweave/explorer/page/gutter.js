// The names of the rows beside the lanes, as buttons that unfold ranks; only those in view are on the page.

const HOST = "Unfolds what the host did: a row per thread with operators, ranges, API calls and Python frames";

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
    const key = seen.map((row) => `${row.kind}${row.rank} ${row.label} ${row.top} ${row.height}`).join("|") + [...this.view.streams] + "|" + [...this.view.host] + "|" + [...this.view.pinned];
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
    line.append(this.toggle("streams", row.rank, `streams of rank ${row.rank}`, this.told(row.rank), `rank ${row.rank}`));
    const more = document.createElement("span");
    more.textContent = " threads";
    if (row.height >= 11) line.append(this.pin(row.rank), this.toggle("host", row.rank, `host threads of rank ${row.rank}`, HOST, "host", more));
    return line;
  }

  toggle(what, rank, label, title, ...inside) {
    const button = document.createElement("button");
    button.type = "button";
    button.id = `${what}-${rank}`;
    Object.assign(button.dataset, { what, rank });
    button.append(...inside);
    button.title = title;
    button.setAttribute("aria-label", label);
    button.setAttribute("aria-expanded", String(this.view[what].has(rank)));
    return button;
  }

  pin(rank) {
    const on = this.view.pinned.has(rank);
    const button = this.toggle("pinned", rank, `pin rank ${rank} to the top`, on ? "Back to its place" : "To the top, beside others that are pinned", "⇡");
    button.setAttribute("aria-pressed", String(on));
    button.removeAttribute("aria-expanded");
    return button;
  }

  told(rank) {
    const one = this.run.rankOf.get(rank);
    return [one.host, one.gpu_name, one.pid === null ? "" : `pid ${one.pid}`, one.clock && `clock: ${one.clock}`].filter(Boolean).join(" · ");
  }
}
