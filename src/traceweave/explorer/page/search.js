// Search by name: how many operations, and the way from one to the next. A time leads to itself.
import { parseMoment } from "./moments.js";
import { askJson, latest } from "./server.js";

const { many } = TraceweaveCharts;
const SOON = 200;
const AGAIN = 500;

export class Search {
  constructor(form, view, { go, goToTime }, failed) {
    Object.assign(this, { form, view, go, goToTime, failed });
    this.field = form.querySelector("input");
    this.told = form.querySelector("output");
    this.asking = latest((signal, params) => askJson("search", params, { signal }));
    this.hitting = latest((signal, params) => askJson("hit", params, { signal }));
    this.field.value = view.search;
    this.field.addEventListener("input", () => this.typed());
    this.field.addEventListener("keydown", (event) => this.key(event));
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const one of form.querySelectorAll("[data-step]")) one.addEventListener("click", () => this.step(Number(one.dataset.step)));
    if (view.search) this.count();
  }

  typed() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      this.view.search = this.moment ? "" : this.field.value;
      this.view.changed("search");
      this.count();
    }, SOON);
  }

  get moment() {
    return parseMoment(this.field.value, this.view.run);
  }

  key(event) {
    if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") this.field.blur();
  }

  async count() {
    const text = this.view.search;
    if (!text) return (this.told.textContent = this.moment ? "Enter: go there" : "");
    const found = await this.attempt(() => this.asking({ text }));
    if (!found || text !== this.view.search) return;
    if (!found.ready) setTimeout(() => this.count(), AGAIN);
    this.told.textContent = found.ready ? `${many(found.ops, "hit")}, ${many(found.of, "name")}` : "…";
  }

  // From the operation that is picked, else from the edge of what is in view.
  async step(by) {
    const { moment } = this;
    if (moment) return this.goToTime(moment);
    const text = this.field.value;
    if (!text) return this.field.focus();
    this.view.search = text;
    const { picked } = this.view;
    const from = picked?.kind === "op" ? [picked.start_ns, picked.id] : [Math.max(Math.round(by > 0 ? this.view.from : this.view.until), 0), by > 0 ? -1 : Number.MAX_SAFE_INTEGER];
    const found = await this.attempt(() => this.hitting({ text, at: from[0], id: from[1], back: by < 0 ? 1 : 0 }));
    if (!found) return;
    if (found.hit) this.go({ ...found.hit, kind: "op" });
    else this.told.textContent = by > 0 ? "none after this" : "none before this";
  }

  async attempt(asking) {
    try {
      return await asking();
    } catch (error) {
      this.failed(error);
      return null;
    }
  }
}
