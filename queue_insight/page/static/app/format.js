// Times, spans and quantities as people read them.

const SUFFIXES = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};
const QUANTITY = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]?|[KMGTPE]i)$/;

/** Return a quantity as a number, for the length of a bar only; NaN if it cannot be read. */
export function amountOf(quantity) {
  const found = QUANTITY.exec(quantity ?? "");
  return found ? Number(found[1]) * SUFFIXES[found[2]] : NaN;
}

/** Return a number of a resource as a short quantity: bytes with Ki, Mi and so on. */
export function showAmount(resource, amount) {
  if (isInBytes(resource)) {
    for (const suffix of ["Ti", "Gi", "Mi", "Ki"]) {
      if (Math.abs(amount) >= SUFFIXES[suffix]) return `${round(amount / SUFFIXES[suffix])}${suffix}`;
    }
  }
  return round(amount);
}

/** Return whether amounts of a resource are bytes. */
export function isInBytes(resource) {
  return resource === "memory" || resource.endsWith("storage") || resource.startsWith("hugepages-");
}

function round(number) {
  return String(Math.round(number * 100) / 100);
}

/** Return amounts by resource as one line; `nameOf` returns what a resource is called. */
export function showAmounts(amounts, nameOf = (resource) => resource) {
  const parts = Object.entries(amounts ?? {}).map(([resource, quantity]) => `${quantity} ${nameOf(resource)}`);
  return parts.length ? parts.join(", ") : "nothing";
}

/** Return amounts by resource as one short line: without the domains of resources. */
export function shortAmounts(amounts) {
  return showAmounts(amounts, (resource) => resource.split("/").at(-1));
}

/** Return a span of seconds in its two largest units, such as "2h 5m". */
export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  const sign = seconds < 0 ? "-" : "";
  let rest = Math.abs(Math.round(seconds));
  const parts = [];
  for (const [letter, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || (letter === "s" && !parts.length)) parts.push(`${count}${letter}`);
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return sign + parts.join(" ");
}

const TIME = new Intl.DateTimeFormat("en-US", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY_OF_YEAR = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric", year: "numeric" });
const DAY = new Intl.DateTimeFormat("en-US", { weekday: "short", month: "short", day: "numeric" });

/** Return a time of the API in the viewer's zone; the day is left out today, the year this year. */
export function clockTime(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return "";
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return TIME.format(date);
  const day = date.getFullYear() === now.getFullYear() ? DAY : DAY_OF_YEAR;
  return `${day.format(date)}, ${TIME.format(date)}`;
}

/** Return a number of units per hour; "" where it is not known. */
export function perHour(rate) {
  if (rate === null || rate === undefined) return "";
  return rate.toLocaleString("en-US", { maximumFractionDigits: rate < 10 ? 1 : 0 });
}

/** Return the seconds from one time of the API to another. */
export function secondsBetween(start, end) {
  return (new Date(end).getTime() - new Date(start).getTime()) / 1000;
}

/** Return "1 unit", "2 units". */
export function count(number, word) {
  return `${number.toLocaleString("en-US")} ${word}${number === 1 ? "" : "s"}`;
}

/** Return a text as a sentence: with a capital letter, and an end. */
export function asSentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}

/** Return what a refusal comes to, where its numbers are known: "missing 4 cpu in philly". */
export function shortReason({ message, missing, resource, quota }) {
  if (!missing || !resource) return message;
  return `missing ${missing} ${resource}${quota ? ` in ${quota}` : ""}`;
}
