// The view in the address after '#', so that a link leads back to it: times in ns from the beginning of the run.
import { spans } from "./data.js";

export function write(view) {
  const parts = new URLSearchParams();
  parts.set("t", `${Math.round(view.from)}-${Math.round(view.until)}`);
  for (const set of ["streams", "host"]) if (view[set].size) parts.set(set, spans([...view[set]]));
  if (view.selection) parts.set("select", `${view.selection.from}-${view.selection.until}`);
  if (view.picked && view.picked.id !== undefined) parts.set("op", `${view.picked.kind}.${view.picked.rank}.${view.picked.id}`);
  if (view.finding) parts.set("finding", view.finding.number);
  if (view.search) parts.set("search", view.search);
  if (view.query) parts.set("sql", view.query);
  return `#${parts}`;
}

// Takes what it can of an address; what is not there, or is of another run, stays as it is.
export function read(hash, view) {
  const parts = new URLSearchParams(hash.slice(1));
  const time = pair(parts.get("t"));
  if (time) view.look(time[0], time[1] - time[0]);
  for (const set of ["streams", "host"]) {
    if (parts.has("t")) view[set] = new Set(numbers(parts.get(set) || "").filter((rank) => view.run.rankOf.has(rank)));
  }
  const selected = pair(parts.get("select"));
  if (selected) view.selection = { from: selected[0], until: selected[1] };
  const op = /^(op|host)\.(\d+)\.(\d+)$/.exec(parts.get("op") || "");
  view.search = parts.get("search") || "";
  view.query = parts.get("sql") || "";
  return op && view.run.rankOf.has(Number(op[2])) ? { kind: op[1], rank: Number(op[2]), id: Number(op[3]) } : null;
}

// The number of the finding that the view is filtered by, null if none is: it has to be asked for.
export function finding(hash) {
  const [number] = numbers(new URLSearchParams(hash.slice(1)).get("finding") || "");
  return number ?? null;
}

function pair(text) {
  const found = /^(-?\d{1,18})-(-?\d{1,18})$/.exec(text || "");
  const [from, until] = found ? [Number(found[1]), Number(found[2])] : [0, 0];
  return until > from ? [from, until] : null;
}

function numbers(text) {
  return text.split(",").flatMap((part) => {
    const found = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
    if (!found) return [];
    const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
    return last - first < 100_000 ? Array.from({ length: last - first + 1 }, (_, i) => first + i) : [];
  });
}
