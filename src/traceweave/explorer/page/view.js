// What is looked at: a stretch of the run [from, until) in ns from its beginning, which ranks are unfolded, what is picked,
// selected and searched for, and the finding that it is filtered by. Whoever shows it listens to "change".

const SHORTEST = 50;

export class View extends EventTarget {
  constructor(run) {
    super();
    this.run = run;
    this.span = run.span_ns;
    this.from = 0;
    this.until = run.span_ns;
    this.streams = new Set();
    this.host = new Set();
    this.picked = null;
    this.selection = null;
    this.mark = null; // a moment that was gone to
    this.search = "";
    this.finding = null; // all that is not of it is drawn faintly
  }

  get length() {
    return this.until - this.from;
  }

  changed(what) {
    this.dispatchEvent(new CustomEvent("change", { detail: what }));
  }

  look(from, length) {
    const span = Math.min(Math.max(length, SHORTEST), this.span * 1.05);
    const margin = span * 0.05;
    this.from = Math.min(Math.max(from, -margin), Math.max(this.span + margin - span, -margin));
    this.until = this.from + span;
    this.changed("time");
  }

  zoom(factor, at = (this.from + this.until) / 2) {
    const length = Math.min(Math.max(this.length * factor, SHORTEST), this.span * 1.05);
    this.look(at - ((at - this.from) / this.length) * length, length);
  }

  pan(part) {
    this.look(this.from + part * this.length, this.length);
  }

  whole() {
    this.look(0, this.span);
  }

  // Moves as little as needed to have a stretch in view, large enough to be seen.
  reveal(from, length) {
    const seen = (length / this.length) > 0.004;
    if (!seen) return this.look(from + length / 2 - length * 10, length * 20);
    if (from < this.from || from + length > this.until) this.look(from + length / 2 - this.length / 2, this.length);
  }

  focus(from, length) {
    this.look(from - 0.25 * length, 1.5 * length);
  }

  toggle(set, rank, on = !this[set].has(rank)) {
    if (on) this[set].add(rank);
    else this[set].delete(rank);
    this.changed("rows");
  }

  pick(picked) {
    this.picked = picked;
    this.changed("picked");
  }

  filter(finding) {
    this.finding = finding;
    this.changed("finding");
  }

  select(selection) {
    this.selection = selection;
    this.changed("selection");
  }
}
