// The pane of the findings: each as a block, at its place on the timeline where it has one, and as what the page is filtered by.
import { button, element } from "./elements.js";
import { askJson } from "./server.js";

const { many } = TraceweaveCharts;

export class Findings {
  constructor(pane, view, { place, failed }) {
    Object.assign(this, { pane, view, place, failed, rows: null });
  }

  // They are made once, when they are first wanted; a large run takes some seconds.
  async load() {
    this.asked ??= askJson("findings");
    if (!this.rows) this.pane.replaceChildren(element("p", { class: "soft" }, "The run is analyzed …"));
    try {
      this.rows = await this.asked;
      this.tell();
    } catch (error) {
      this.asked = null;
      this.failed(error);
    }
    return this.rows;
  }

  tell() {
    const { rows, view } = this;
    const head = rows.length ? `${many(rows.length, "finding")}, most severe first` : "Nothing was found that costs much.";
    this.pane.replaceChildren(element("h2", {}, head), ...rows.map((row, number) => this.block(row, number, view.finding?.number === number)));
  }

  block(row, number, chosen) {
    return element(
      "article",
      { class: `finding ${row.severity}`, "aria-current": chosen ? "true" : null },
      element("h3", {}, element("span", { class: "severity" }, row.severity), row.cost ? ` ${row.cost}: ` : " ", row.title),
      element("p", {}, row.evidence),
      row.advice ? element("p", {}, `Try: ${row.advice}`) : null,
      element("p", { class: "next" }, "Next: ", element("code", {}, row.command)),
      row.subject ? element("p", {}, chosen ? button("Show everything", () => this.view.filter(null)) : button("Show it", () => this.show(number))) : null,
    );
  }

  // Everything else is drawn faintly, and the place where it shows best comes into view.
  async show(number) {
    const rows = this.rows || (await this.load());
    const row = rows?.[number];
    if (!row?.subject) return;
    this.view.filter({ number, ...row });
    try {
      const { place } = await askJson("finding-place", { finding: number });
      if (place && this.view.finding?.number === number) this.place(place, row);
    } catch (error) {
      this.failed(error);
    }
  }
}
