// What the pointer is at, in a few words beside it. Built from nodes, never from markup: names come from the trace.
const { moment, text, tip } = TraceweaveCharts;

const LONGEST_NAME = 300;
export const CATEGORY_NAMES = ["compute", "communication", "copies"];

export function describe(found, colours) {
  if (found.kind === "block") {
    const lines = found.shares.map((share, i) => [CATEGORY_NAMES[i], text(share, "fraction"), colours.categories[i]]).filter((_, i) => found.shares[i] > 0);
    return tip(`${text(found.length, "duration")} of rank ${found.rank}`, lines.length ? lines : [["nothing ran", "", ""]]);
  }
  const lines = [["length", text(found.duration_ns, "duration"), ""]];
  if (found.what) lines.push(["class", found.what, colours.op(found.category, found.what)]);
  if (found.wait_ns > 0) lines.push(["of it waiting for other ranks", text(found.wait_ns, "duration"), ""]);
  if (found.host_op) lines.push(["host meanwhile", found.host_op, ""]);
  if (found.sort) lines.push(["what", found.sort, ""]);
  lines.push(["from the beginning", moment(found.start_ns), ""]);
  return tip(found.name.length > LONGEST_NAME ? `${found.name.slice(0, LONGEST_NAME)}…` : found.name, lines);
}

// Above what opens below the lanes, which end at `bottom`.
export function show(card, node, x, y, bottom) {
  card.replaceChildren(node);
  card.hidden = false;
  const [width, height] = [card.offsetWidth, card.offsetHeight];
  card.style.left = `${Math.max(Math.min(x + 14, window.innerWidth - width - 6), 4)}px`;
  card.style.top = `${y + 18 + height > bottom ? Math.max(y - height - 10, 4) : y + 18}px`;
}
