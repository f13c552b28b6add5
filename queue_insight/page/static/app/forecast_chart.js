// When a unit starts, as a band of times. Drawn by hand: a line and a band need no library.
import { clockTime, secondsBetween, span } from "./format.js";
import { html } from "./html.js";

const WIDTH = 700;
const HEIGHT = 120;
const LEFT = 20;
const MIDDLE = 45;
const BAND = 14;

/** A forecast: from its 10th to its 90th percentile, the median, and the same without arrivals. */
export function ForecastChart({ forecast }) {
  const { startP10, startP50, startP90, withoutArrivals } = forecast;
  const marks = [startP10, startP50, startP90, withoutArrivals.startP50].filter(clockTime);
  if (!marks.length) {
    return html`<p>It is not expected to start within seven days.</p>`;
  }
  const now = presentOf(forecast);
  const seconds = (time) => Math.max(0, secondsBetween(now, time));
  const furthest = Math.max(60, ...marks.map(seconds)) * 1.1;
  // What is beyond the horizon stands at the end.
  const x = (time) => LEFT + ((WIDTH - 2 * LEFT) * (clockTime(time) ? seconds(time) : furthest)) / furthest;
  return html`<figure>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${inWords(forecast)}>
      <line class="f-axis" x1=${LEFT} x2=${WIDTH - LEFT} y1=${MIDDLE + 28} y2=${MIDDLE + 28} />
      <text class="f-text" x=${LEFT} y=${HEIGHT - 22}>now</text>
      <text class="f-text" x=${WIDTH - LEFT} y=${HEIGHT - 22} text-anchor="end">in ${span(furthest)}</text>
      ${startP10 &&
      html`<rect class="f-band" x=${x(startP10)} width=${Math.max(2, x(startP90) - x(startP10))} y=${MIDDLE - BAND} height=${2 * BAND} />`}
      ${startP50 && html`<line class="f-line" x1=${x(startP50)} x2=${x(startP50)} y1=${MIDDLE - 20} y2=${MIDDLE + 20} />`}
      ${withoutArrivals.startP50 &&
      html`<line class="f-without" x1=${x(withoutArrivals.startP50)} x2=${x(withoutArrivals.startP50)} y1=${MIDDLE - 20} y2=${MIDDLE + 20} />`}
    </svg>
    <figcaption>${inWords(forecast)}</figcaption>
  </figure>`;
}

/** The time of the answer: the forecast is older. */
function presentOf({ computedAt, ageSeconds }) {
  return new Date(new Date(computedAt).getTime() + ageSeconds * 1000).toISOString();
}

function inWords(forecast) {
  const { startP10, startP50, startP90, withoutArrivals } = forecast;
  const now = presentOf(forecast);
  // It waits, so it has not started at a time that is past.
  const isToCome = (time) => secondsBetween(now, time) >= 1;
  const chances = Object.entries({ 10: startP10, 50: startP50, 90: startP90 }).filter(
    ([, time]) => !time || isToCome(time),
  );
  if (!chances.length) return "It may start at any moment: it is later than forecast.";
  const known = chances.filter(([, time]) => time).map(([n, time]) => `${n}% before ${clockTime(time)}`);
  const [unknown] = chances.find(([, time]) => !time) || [];
  if (unknown) known.push(`less than ${unknown}% within seven days`);
  const without = withoutArrivals.startP50 && isToCome(withoutArrivals.startP50)
    ? ` If no more jobs arrived (dashed): 50% before ${clockTime(withoutArrivals.startP50)}.`
    : "";
  return `Chance that it starts: ${known.join(", ")}.${without}`;
}
