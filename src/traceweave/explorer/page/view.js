// What is looked at: a stretch of the run [from, until) in ns from its beginning, which ranks are unfolded, what is picked,
// selected and searched for, and the finding that it is filtered by. Whoever shows it listens to "change".

const SHORTEST = 50;
const MARGIN = 0.05;

export class View extends TraceweaveTimelineView.View {
  constructor(run) {
    super(run.span_ns, SHORTEST, MARGIN);
    this.run = run;
    this.streams = new Set();
    this.host = new Set();
    this.pinned = new Set(); // ranks that come first
    this.picked = null;
    this.selection = null;
    this.mark = null; // a moment that was gone to
    this.search = "";
    this.finding = null; // all that is not of it is drawn faintly
  }

  // Moves as little as needed to have a stretch in view, large enough to be seen.
  reveal(from, length) {
    const seen = (length / this.length) > 0.004;
    if (!seen) return this.look(from + length / 2 - length * 10, length * 20);
    if (from < this.from || from + length > this.until) this.look(from + length / 2 - this.length / 2, this.length);
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
