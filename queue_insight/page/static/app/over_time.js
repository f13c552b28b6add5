// What there was over time, of the whole, a queue or a quota: units, waits, use.
import { useAnswerEach } from "./api.js";
import { Chart, OF_BYTES, OF_SECONDS } from "./chart.js";
import { clockTime, isInBytes, showAmount, span } from "./format.js";
import { html } from "./html.js";
import { Answered, Empty, Problem, Ranges } from "./parts.js";
import { resourcesOf } from "./quota_bars.js";
import { choice, Link, pathTo, place, setQuery } from "./router.js";

// What `range` in the address may be, in words.
const RANGES = { "1h": "1 hour", "1d": "1 day", "7d": "7 days" };
const USUAL_RANGE = "1h";
const MINUTE_MILLISECONDS = 60_000;
const TABLE_ROWS = 24;
/** Seconds that no chart shows. */
const INSTANT = 0.001;
/** Pixels of a chart that is one part of a view. */
const LOW_CHART = 150;

/** Return a number of units, of a longer time on average, as text. */
const showUnits = (number) => (Math.round(number * 10) / 10).toLocaleString("en-US");

/** Return the address of the view of a queue or a quota. It shows what was until now: no `at`. */
export function overTimeOf(kind, name) {
  return `/${kind}/${encodeURIComponent(name)}/over-time`;
}

/** The view of a queue or a quota; with neither name of all together. */
export function OverTime({ queue = "", quota = "" }) {
  const range = choice("range", RANGES, USUAL_RANGE);
  const asked = useSamples({ range, queue, quota });
  return html`
    <h1>${queue ? `Queue ${queue} over time` : quota ? `Quota ${quota} over time` : "Over time"}</h1>
    ${queue && html`<p><${Link} to=${pathTo("queues", queue)}>Queue ${queue} now<//></p>`}
    ${quota && html`<p><${Link} to=${pathTo("quotas", quota)}>Quota ${quota} now<//></p>`}
    <${Ranges} ...${{ known: RANGES, usual: USUAL_RANGE, range }} />
    <${Answered} asked=${asked} show=${(answer) => html`<${Shown} ...${{ answer, range }} />`} />
  `;
}

/** Ask for what there was, and again each minute, as often as something is recorded. */
function useSamples({ range, queue, quota }) {
  const query = new URLSearchParams({ range });
  if (queue) query.set("queue", queue);
  if (quota) query.set("quota", quota);
  return useAnswerEach(MINUTE_MILLISECONDS, `/page/over-time?${query}`);
}

function Shown({ answer, range }) {
  return html`
    ${answer.times.length > 0
      ? html`<${Charts} ...${{ answer, range }} />`
      : html`<${Nothing} recorded=${answer.recorded} />`}
    ${answer.dashboards &&
    html`<p><a href=${answer.dashboards} rel="noreferrer">Dashboards in Grafana</a></p>`}
  `;
}

function Nothing({ recorded }) {
  return html`<${Empty}>
    ${recorded
      ? "Nothing is recorded yet. The first numbers are there after a minute."
      : html`No record is kept. To turn it on, give the insight program a folder with
          ${" "}<code>--record-dir</code>.`}
  <//>`;
}

function Charts({ answer, range }) {
  const { waitP50, waitP90, sumsHidden } = answer;
  const resources = resourcesOf([answer]);
  const wanted = place.value.query.get("resource");
  const resource = resources.includes(wanted) ? wanted : resources[0];
  const last = RANGES[range];
  return html`
    ${sumsHidden &&
    html`<p class="hint">
      Some numbers are not shown: they would tell about one or two namespaces whose units you may not list.
    </p>`}
    <h2>Units</h2>
    <${UnitsChart} answer=${answer} last=${last} />
    <h2>Waits</h2>
    <p class="hint">How long the units waited that were admitted in each step.</p>
    <${Steps}
      answer=${answer}
      show=${span}
      marks=${OF_SECONDS}
      about=${`Waits over the last ${last}`}
      lines=${[
        { label: "p50", values: waitP50, color: "--own", points: true },
        { label: "p90", values: waitP90, color: "--mark-runtime", dash: [6, 3], points: true },
      ]}
    />
    <h2>Use</h2>
    ${resource
      ? html`<p class="controls">
            <label>Resource${" "}
              <select value=${resource} onChange=${(event) => setQuery({ resource: event.target.value })}>
                ${resources.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
              </select>
            </label>
          </p>
          <${UseChart} ...${{ answer, resource, about: `${resource} over the last ${last}` }} />`
      : html`<${Empty}>${sumsHidden ? "What was used is not shown." : "Nothing was used."}<//>`}
    <${NumbersTable} ...${{ answer, resource }} />
  `;
}

function UnitsChart({ answer, last, height }) {
  const { pending, admitted } = answer;
  return html`<${Steps}
    answer=${answer}
    show=${showUnits}
    about=${`Units over the last ${last}`}
    height=${height}
    lines=${[
      { label: "pending", values: pending, color: "--borrowed" },
      { label: "admitted", values: admitted, color: "--own" },
    ]}
  />`;
}

/** All units of the last hour, lower than in the view of its own. */
export function LastHour() {
  const { answer, error, again } = useSamples({ range: USUAL_RANGE, queue: "", quota: "" });
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (answer && !answer.times.length) return null;
  return html`<div class="last-hour">
    ${answer && html`<${UnitsChart} answer=${answer} last="hour" height=${LOW_CHART} />`}
  </div>`;
}

/** What a quota used in the last day; `about` says it in words. */
export function LastDayOfQuota({ name, resource }) {
  const asked = useSamples({ range: "1d", queue: "", quota: name });
  const about = `${resource} used by ${name} over the last day`;
  return html`<${Answered}
    asked=${asked}
    show=${(answer) =>
      answer.times.length > 0
        ? html`<${UseChart} ...${{ answer, resource, about }} />
            <${NumbersTable} ...${{ answer, resource }} />`
        : html`<${Nothing} recorded=${answer.recorded} />`}
  />`;
}

function UseChart({ answer, resource, about }) {
  const { times } = answer;
  const used = answer.used[resource] ?? answer.pending.map((each) => (each === null ? null : 0));
  const lines = [{ label: "used", values: used, color: "--own" }];
  const level = (amount) => times.map(() => amount);
  const { [resource]: least } = answer.min;
  const { [resource]: most } = answer.max;
  if (least > 0) lines.push({ label: "min now", values: level(least), color: "--mark", dash: [2, 4] });
  if (most > 0) lines.push({ label: "max now", values: level(most), color: "--borrowed", dash: [8, 4] });
  return html`<${Steps}
    answer=${answer}
    show=${(amount) => showAmount(resource, amount)}
    marks=${isInBytes(resource) ? OF_BYTES : undefined}
    about=${about}
    lines=${lines}
  />`;
}

/**
 * Return the times and lines of a chart in which a number that none follows holds for its whole step.
 *
 * A line ends where its next number is missing: so the number stands there again, just before.
 */
export function heldToTheEnd(times, lines) {
  const isEnd = times.map((_, index) =>
    lines.some(({ values }) => values[index] !== null && values[index + 1] === null),
  );
  const twice = (values, again) => values.flatMap((each, index) => (isEnd[index] ? [each, again(each, index)] : [each]));
  return {
    times: twice(times, (_, index) => times[index + 1] - INSTANT),
    lines: lines.map((line) => ({ ...line, values: twice(line.values, (each) => each) })),
    again: twice(isEnd.map(() => false), () => true),
  };
}

/** A chart in which the last number holds until now. */
function Steps({ answer: { times, until }, show, marks, about, lines, height }) {
  const held = heldToTheEnd(
    [...times, Math.max(until, times.at(-1) + 1)],
    lines.map((line) => ({ ...line, values: [...line.values, line.points ? null : line.values.at(-1)] })),
  );
  const said = lines.map(({ label, values }) => {
    const known = values.filter((each) => each !== null);
    return known.length ? `${label} ${show(known.at(-1))} last, at most ${show(Math.max(...known))}` : `no ${label}`;
  });
  return html`<${Chart} label=${`${about}: ${said.join("; ")}`} ...${{ show, marks, height, ...held }} />`;
}

/** The same for who does not see the charts: as many rows as a person reads. */
function NumbersTable({ answer, resource }) {
  const { times, pending, admitted, waitP50, waitP90 } = answer;
  const used = answer.used[resource];
  const columns = [
    ["Pending", pending, showUnits],
    ["Admitted", admitted, showUnits],
    ["Wait p50", waitP50, span],
    ["Wait p90", waitP90, span],
    ...(used ? [[`Used ${resource}`, used, (amount) => showAmount(resource, amount)]] : []),
  ];
  const step = Math.ceil(times.length / TABLE_ROWS);
  const rows = times.map((time, index) => [time, index]).filter(([, index]) => index % step === 0);
  return html`<details>
    <summary>The same as a table</summary>
    <div class="scroll" tabindex="0" role="group" aria-label="Numbers over time">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">Time</th>
            ${columns.map(([title]) => html`<th scope="col" class="number" key=${title}>${title}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ([time, index]) => html`<tr key=${time}>
              <th scope="row">${clockTime(new Date(time * 1000).toISOString())}</th>
              ${columns.map(
                ([title, values, show]) => html`<td class="number" key=${title} data-label=${title.toLowerCase()}>
                  ${values[index] === null ? "–" : show(values[index])}
                </td>`,
              )}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}
