// Moments of a run as people write them and as it counts them: in ns from its beginning.

const UNITS = { ns: 1, us: 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12 };
const SECOND = 1_000_000_000n;
const DAY = 86_400n * SECOND;
const EPOCH_DIGITS = 16; // so many are no name
const EPOCH_FROM = 10n ** 17n; // clocks that are behind it do not count from 1970

// What a text means: { from, until }, which are equal but for a step; null if it is no time. It may lie outside of the run.
// Taken are "step 5"; "91.8 ms" from the beginning; ns on the common clock; a time of day in UTC, with its date or without.
export function parseMoment(text, run) {
  const words = text.trim().toLowerCase();
  const step = /^step\s*(-?\d+)$/.exec(words);
  if (step) return stretchOf(run.steps.find((one) => one.step === Number(step[1])));
  const since = sinceBeginning(words) ?? onClock(words, run) ?? ofDay(words, run);
  return since === null ? null : { from: since, until: since };
}

// As the terminal writes it: UTC, to the microsecond; null where clocks do not tell it.
export function timeOfDay(run, ns) {
  if (!tellsTime(run)) return null;
  const at = (BigInt(run.origin_ns) + BigInt(Math.round(ns))) % DAY;
  const micro = String((at % SECOND) / 1_000n).padStart(6, "0");
  return `${new Date(Number(at / SECOND) * 1e3).toISOString().slice(11, 19)}.${micro}`;
}

const tellsTime = (run) => BigInt(run.origin_ns) > EPOCH_FROM;
const stretchOf = (step) => (step ? { from: step.start_ns, until: step.end_ns } : null);

function sinceBeginning(words) {
  const found = /^([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([a-z\u00b5\u03bc]+)$/.exec(words);
  return found && Object.hasOwn(UNITS, found[2]) ? Number(found[1]) * UNITS[found[2]] : null;
}

function onClock(words, run) {
  if (!/^\d+$/.test(words)) return null;
  const since = Number(BigInt(words) - BigInt(run.origin_ns));
  return words.length >= EPOCH_DIGITS || (since >= 0 && since <= run.span_ns) ? since : null;
}

// Without a date it is that of the beginning, or the day after in a run that goes on over midnight.
function ofDay(words, run) {
  const found = /^(?:(\d{4}-\d\d-\d\d)[ t])?([01]?\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?\s*(?:utc|z)?$/.exec(words);
  if (!found || !tellsTime(run)) return null;
  const [date, hours, minutes, seconds, fraction = ""] = found.slice(1);
  const origin = BigInt(run.origin_ns);
  const day = date ? BigInt(Date.parse(`${date}T00:00:00Z`) || 0) * 1_000_000n : origin - (origin % DAY);
  const at = day + BigInt(3600 * hours + 60 * minutes + Number(seconds)) * SECOND + BigInt(fraction.padEnd(9, "0"));
  const since = at - origin;
  return Number(!date && since < 0n && since + DAY <= BigInt(run.span_ns) ? since + DAY : since);
}
