// What happened to a unit: as a line of time, and as a list with the same in words.
import { clockTime, count, secondsBetween, span } from "./format.js";
import { html } from "./html.js";
import { Badge, Empty, UnitLink } from "./parts.js";
import { setQuery } from "./router.js";

const WIDTH = 1000;
const HEIGHT = 40;

/** `created` and `until` are times, null where they are not known; `log` has the newest first. */
export function Timeline({ created, until, log }) {
  return html`<section aria-labelledby="timeline">
    <h2 id="timeline">What happened</h2>
    ${log === null
      ? html`<${Empty}>
          Nothing is recorded. To keep what is decided, give the insight program a folder with
          ${" "}<code>--record-dir</code>.
        <//>`
      : html`<${TimeLine} ...${{ created, until, log }} />
          <ol class="timeline" reversed>
            ${log.map((each) => html`<${Entry} key=${each.number} entry=${each} />`)}
            ${created && html`<li><time datetime=${created}>${clockTime(created)}</time> created</li>`}
          </ol>`}
  </section>`;
}

/**
 * Return what a unit was from when to when, of its decisions: {state, from, to} in order.
 *
 * A unit waits until it is admitted, and again from the first refusal after that.
 */
export function spansOf(created, until, log) {
  const decided = [...log].reverse();
  const from = created ?? decided[0]?.time;
  const spans = from ? [{ state: "waiting", from, to: until }] : [];
  for (const { kind, time } of decided) {
    const state = { Admitted: "admitted", Refused: "waiting" }[kind];
    const last = spans.at(-1);
    if (!state || state === last.state) continue;
    last.to = time;
    spans.push({ state, from: time, to: until });
  }
  return spans.filter((each) => secondsBetween(each.from, each.to) > 0);
}

/** The line: a bar for each span, a mark for each decision. The labels are text beside it. */
function TimeLine({ created, until, log }) {
  const spans = spansOf(created, until ?? log[0]?.time, log);
  if (!spans.length) return null;
  const [first, last] = [spans[0].from, spans.at(-1).to];
  const whole = secondsBetween(first, last);
  const x = (time) => (WIDTH * Math.min(whole, Math.max(0, secondsBetween(first, time)))) / whole;
  const said = spans
    .map(({ state, from, to }) => `${state} for ${span(secondsBetween(from, to))} from ${clockTime(from)}`)
    .join(", ");
  return html`<figure class="time-line">
    <svg
      viewBox=${`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label=${`Line of time: ${said}; ${count(log.length, "decision")}.`}
    >
      ${spans.map(
        ({ state, from, to }) =>
          html`<rect key=${from} class=${`t-${state}`} x=${x(from)} width=${Math.max(1, x(to) - x(from))} y="10" height="20" />`,
      )}
      ${log.map(
        ({ number, time }) =>
          html`<line key=${number} class="t-mark" x1=${x(time)} x2=${x(time)} y1="2" y2="38" />`,
      )}
    </svg>
    <p class="ends"><span>${clockTime(first)}</span><span>${clockTime(last)}</span></p>
    <ul class="legend">
      ${[...new Set(spans.map((each) => each.state))].map(
        (state) => html`<li key=${state}><span class=${`swatch t-${state}`}></span>${state}</li>`,
      )}
      <li><span class="swatch mark"></span>a decision</li>
    </ul>
  </figure>`;
}

function Entry({ entry }) {
  return html`<li>
    <time datetime=${entry.time}>${clockTime(entry.time)}</time>${" "}
    <${Badge}>${entry.kind}<//>${" "}${entry.message || entry.reason}${" "}
    ${entry.victims.map((each) => html`<${UnitLink} key=${each} unit=${each} />${" "}`)}
    <button type="button" onClick=${() => setQuery({ at: entry.time })}>
      Show this moment<span class="hidden"> (${clockTime(entry.time)})</span>
    </button>
  </li>`;
}
