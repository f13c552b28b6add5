// Who used how much over a time: bars per row, and the rows as a table.
import { useAnswerEach } from "./api.js";
import { clockTime, count, isInBytes, span } from "./format.js";
import { html } from "./html.js";
import { Answered, Empty, JobsLink, Ranges } from "./parts.js";
import { choice, Link, pathTo, place, setQuery } from "./router.js";

// What `range` and `by` in the address may be, in words. The defaults are left out of it.
const RANGES = { "1d": "1 day", "7d": "7 days", "30d": "30 days" };
const USUAL_RANGE = "7d";
const ROWS = { user: "User", group: "Group", quota: "Quota", namespace: "Namespace", kind: "Kind of job" };
const USUAL_ROW = "user";
/** What the account of a namespace begins with, among those of users. */
const OF_NAMESPACE = "namespace:";
const AGAIN_MILLISECONDS = 300_000;
const DAY_SECONDS = 86_400;
/** Marks below the bars, at most: so many fit a phone. */
const MARKS = 4;

const HOUR = new Intl.DateTimeFormat("en-US", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
// Days are those of UTC.
const DAY = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric", timeZone: "UTC" });

export function Report() {
  const range = choice("range", RANGES, USUAL_RANGE);
  const by = choice("by", ROWS, USUAL_ROW);
  const wanted = place.value.query.get("resource") ?? "";
  const query = new URLSearchParams({ range, by });
  if (wanted) query.set("resource", wanted);
  const asked = useAnswerEach(AGAIN_MILLISECONDS, `/page/report?${query}`);
  return html`
    <h1>Report</h1>
    <div class="controls">
      <${Ranges} ...${{ known: RANGES, usual: USUAL_RANGE, range }} />
      <label class="field">
        By
        <select value=${by} onChange=${({ target }) => setQuery({ by: target.value === USUAL_ROW ? "" : target.value })}>
          ${Object.entries(ROWS).map(([each, words]) => html`<option key=${each} value=${each}>${words}</option>`)}
        </select>
      </label>
      ${asked.answer?.resources.length > 0 &&
      html`<label class="field">
        Resource
        <select value=${asked.answer.resource} onChange=${({ target }) => setQuery({ resource: target.value })}>
          ${asked.answer.resources.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>
      </label>`}
      ${asked.answer?.total > 0 && html`<a href=${`/page/report.csv?${query}`} download="report.csv">Download as CSV</a>`}
    </div>
    <${Answered} asked=${asked} show=${(answer) => html`<${Shown} ...${{ answer, by, range }} />`} />
  `;
}

function Shown({ answer, by, range }) {
  if (!answer.accounts) {
    return html`<${Empty}>
      Use is not counted. The chart's value <code>accounts.enabled</code> turns it on.
    <//>`;
  }
  if (!answer.recorded) {
    return html`<${Empty}>
      No hours are recorded: give the insight program a folder with <code>--record-dir</code>. The totals
      of all use are shown by <code>koord-queue report</code>.
    <//>`;
  }
  return html`
    ${answer.total > 0
      ? html`
          <${Bars} ...${{ answer, by, range }} />
          <${Fairness} jain=${answer.jain} resource=${answer.resource} />
          <${Rows} ...${{ answer, by }} />
        `
      : html`<${Empty}>
          ${answer.others.length
            ? "Nothing was used by the namespaces whose units you may list."
            : "Nothing was used in this time. The first numbers are there after some minutes."}
        <//>`}
    <${Others} ...${{ answer }} />
    <${Gaps} ...${{ answer }} />
  `;
}

/** Return what hours of a resource are hours of, to be followed by a word for hours. */
const unitOf = (resource) => (resource === "cpu" ? "core " : isInBytes(resource) ? "GiB " : "");

/** Return hours as text, with the unit that a resource is counted in. */
const hoursOf = (resource, hours) => `${shortNumber(hours)} ${unitOf(resource)}h`;

function shortNumber(number) {
  const digits = number >= 100 ? 0 : number >= 1 ? 1 : 3;
  return number.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** Return a round number that is not below another, for the top of an axis. */
function roundUp(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((each) => each * power).find((each) => each >= number);
}

const nameOf = (bar, by) => bar.name || (by === "group" ? "(no group)" : by === "kind" ? "(not known)" : "");

function Bars({ answer: { bars, times, stepSeconds, resource }, by, range }) {
  const rest = bars.at(-1);
  const drawn = rest.values.some((each) => each > 0) ? bars : bars.slice(0, -1);
  const labels = drawn.map((bar) => (bar === rest ? "all others" : nameOf(bar, by)));
  const colors = drawn.map((bar, index) => (bar === rest ? "use-rest" : `use-${index}`));
  const totals = times.map((_, step) => drawn.reduce((sum, { values }) => sum + values[step], 0));
  const top = roundUp(Math.max(...totals));
  const clock = stepSeconds < DAY_SECONDS ? HOUR : DAY;
  const every = Math.ceil(times.length / MARKS);
  const said = labels.map((label, index) => {
    const all = drawn[index].values.reduce((sum, each) => sum + each, 0);
    return `${label} ${hoursOf(resource, all)}`;
  });
  const titleOf = (step) =>
    [clock.format(times[step] * 1000), ...labels.map((label, index) => `${label} ${hoursOf(resource, drawn[index].values[step])}`)].join("\n");
  return html`<figure class="use">
    <figcaption class="hint">
      ${resource} in ${unitOf(resource)}hours, by ${stepSeconds < DAY_SECONDS ? "hour" : "day of UTC"}; the last one
      ${" "}is not over
    </figcaption>
    <div class="columns" role="img" aria-label=${`${resource} over the last ${RANGES[range]}: ${said.join("; ")}`}>
      ${[1, 0.5, 0].map(
        (share) => html`<span class="level" key=${share} style=${{ bottom: `${100 * share}%` }}>
          <span>${shortNumber(top * share)}</span>
        </span>`,
      )}
      <div class="stacks">
        ${times.map(
          (time, step) => html`<span class="stack" key=${time} title=${titleOf(step)}>
            ${drawn.map(
              ({ values }, index) => html`<span
                key=${index}
                class=${colors[index]}
                style=${{ height: `${(100 * values[step]) / top}%` }}
              ></span>`,
            )}
          </span>`,
        )}
      </div>
    </div>
    <div class="marks" aria-hidden="true">
      ${times.map(
        (time, step) => step % every === 0 && html`<span key=${time} style=${{ left: `${(100 * step) / times.length}%` }}>${clock.format(time * 1000)}</span>`,
      )}
    </div>
    <ul class="legend" aria-label="What the colors show">
      ${labels.map((label, index) => html`<li key=${index}><span class=${`swatch ${colors[index]}`}></span>${label}</li>`)}
    </ul>
  </figure>`;
}

/** How evenly a resource was used, where there are rows to compare. */
function Fairness({ jain: [all], resource }) {
  const index = all?.index?.[resource];
  if (index === undefined || all.rows < 2) return null;
  return html`<p>
    Jain's index: <strong>${index}</strong>
    <span class="hint"> – 1 if all ${all.rows} used the same, ${shortNumber(1 / all.rows)} if one used all</span>
  </p>`;
}

function Rows({ answer: { items, bars, total, resource }, by }) {
  const colored = new Map(bars.slice(0, -1).map(({ name }, index) => [name, `use-${index}`]));
  const hours = (amounts) => (amounts ? hoursOf(resource, Number(amounts[resource] ?? 0)) : "not shown");
  const ofQuotas = by === "quota";
  const columns = [
    ["Used", ({ used }) => hours(used)],
    ...(ofQuotas
      ? [
          ["Borrowed", ({ borrowed }) => hours(borrowed)],
          ["Lent", ({ lent }) => hours(lent)],
        ]
      : []),
    ["Wait p50", ({ waitP50 }) => span(waitP50)],
    ["Wait p90", ({ waitP90 }) => span(waitP90)],
    ["Evictions", ({ evictions }) => evictions.toLocaleString("en-US")],
    ["Lost", ({ lost }) => hours(lost)],
    ...(items.some(({ budgetLeft }) => budgetLeft?.[resource] !== undefined)
      ? [["Budget left", ({ budgetLeft }) => (budgetLeft?.[resource] === undefined ? "" : hours(budgetLeft))]]
      : []),
  ];
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label="Rows of the report">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">${ROWS[by]}</th>
            ${columns.map(([title]) => html`<th scope="col" class="number" key=${title}>${title}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${items.map(
            (row) => html`<tr key=${row.names[by]}>
              <th scope="row">
                <span class=${`swatch ${colored.get(row.names[by]) ?? "use-rest"}`} aria-hidden="true"></span>
                <${Name} name=${row.names[by]} by=${by} />
              </th>
              ${columns.map(
                ([title, show]) => html`<td class="number" key=${title} data-label=${title.toLowerCase()}>${show(row)}</td>`,
              )}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${by === "user" &&
    items.some(({ names }) => names.user.startsWith(OF_NAMESPACE)) &&
    html`<p class="hint">Jobs that name no user count for their namespace.</p>`}
    ${total > items.length && html`<p class="hint">${count(total - items.length, "more row")} in the CSV file.</p>`}
  `;
}

function Name({ name, by }) {
  if (!name) return nameOf({ name }, by);
  if (by === "quota") return html`<${Link} to=${pathTo("quotas", name)}>${name}<//>`;
  const isUser = by === "user" && !name.startsWith(OF_NAMESPACE);
  if (!(isUser || by === "namespace" || by === "kind") || /\s/.test(name)) return name;
  return html`<${JobsLink} filter=${`${by}=${name}`}>${name}<//>`;
}

/** What is used by namespaces that the viewer may not read, by quota. */
function Others({ answer: { others, resource } }) {
  if (!others.length) return null;
  const sums = others.filter(({ used }) => used);
  return html`<p class="others">
    Use of namespaces whose units you may not list is left out above.
    ${sums.length > 0 &&
    ` Until the present hour they used: ${sums
      .map(({ quota, used }) => `${hoursOf(resource || "cpu", Number(used[resource || "cpu"] ?? 0))} of ${quota}`)
      .join(", ")}.`}
    ${sums.length < others.length && " A sum that would tell about one or two of them is not shown."}
  </p>`;
}

function Gaps({ answer: { completeFrom, missingSeconds } }) {
  if (!missingSeconds) return null;
  return html`<p class="hint">
    ${span(missingSeconds)} of this time were not counted.${completeFrom && ` All since ${clockTime(completeFrom)} is there.`}
  </p>`;
}
