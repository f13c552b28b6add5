// One unit: why it waits, what would start it, when it starts, and what was decided about it.
import { ask, session, useAnswer } from "./api.js";
import { clockTime, count, secondsBetween, showAmounts, span } from "./format.js";
import { ForecastChart } from "./forecast_chart.js";
import { html, useState } from "./html.js";
import { explainCommand, patchCommand } from "./kubectl.js";
import { Answered, Badge, CopyButton, Empty, Facts, Others, Problem, Snippet, UnitLink } from "./parts.js";
import { Link, pathTo, place, setQuery, whatIfPath } from "./router.js";

export function Unit({ namespace, name }) {
  const at = place.value.query.get("at");
  const path = `/page/units/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const key = `${namespace}/${name}`;
  const asked = useAnswer(at ? `${path}?at=${encodeURIComponent(at)}` : path, (latest) =>
    // A unit waits for others of its queue: their news are its news.
    !at && (latest.units.includes(key) || latest.queues.includes(asked.answer?.unit.queue)),
  );
  const show = (answer) => html`<${Shown} ...${{ answer, path, at }} />`;
  return html`
    <h1>${key}</h1>
    <${Answered} asked=${asked} show=${show} />
  `;
}

const TONES = { waiting: "warn", held: "bad", admitted: "good", finished: "plain" };

function Shown({ answer, path, at }) {
  const { unit, explain } = answer;
  return html`
    <p class="summary">
      <${Badge} tone=${TONES[explain.verdict]}>${explain.verdict}<//>${" "}${explain.summary}
    </p>
    ${explain.neverStarts && html`<p class="problem error">It is larger than a limit: waiting does not help.</p>`}
    <p class="controls">
      <${CopyButton} text=${explainCommand(unit.namespace, unit.name)}>Copy as kubectl<//>
      ${!at && unit.quota && explain.blockers.length > 0 && session.value?.whatIf && html`<${Link} to=${whatIfOf(unit, explain)}>What if its quota were different?<//>`}
    </p>
    <${About} unit=${unit} stateAt=${answer.stateAt} />
    <${Blockers} explain=${explain} />
    ${!at && explain.verdict !== "admitted" && explain.verdict !== "finished" && html`<${Changes} path=${path} />`}
    <${Admitted} admitted=${explain.admitted} />
    <${WhenItStarts} forecast=${answer.forecast} explain=${explain} at=${at} />
    <${Pods} podSets=${unit.podSets} />
    <${Timeline} unit=${unit} log=${answer.log} />
  `;
}

/** Return the address of the question what a larger quota would do, about what is scarcest. */
function whatIfOf({ namespace, name, quota }, { blockers: [first] }) {
  return whatIfPath({ quota, resource: first.resource, unit: `${namespace}/${name}` });
}

function About({ unit, stateAt }) {
  const { job } = unit;
  return html`<${Facts}
    pairs=${[
      ["Queue", unit.queue && html`<${Link} to=${pathTo("queues", unit.queue)}>${unit.queue}<//>`],
      ["Quota", unit.quota && html`<${Link} to=${pathTo("quotas", unit.quota)}>${unit.quota}<//>`],
      ["Position", unit.position || ""],
      ["Priority", unit.specPriority == null ? unit.priority : `${unit.priority} (its own: ${unit.specPriority})`],
      ["Job", job?.kind ? `${job.kind} ${job.name}` : ""],
      ["Phase", unit.phase],
      ["Requests", showAmounts(unit.demand)],
      ["Created", `${clockTime(unit.created)} (${span(secondsBetween(unit.created, stateAt))} before)`],
      ["Starts at the latest", unit.promisedStart && clockTime(unit.promisedStart)],
      ["Pods are not ready", unit.podsNotReady],
    ]}
  />`;
}

/** Reasons that are shown at first: a unit may be refused by each of hundreds of quotas. */
const MOST_BLOCKERS = 10;

function Blockers({ explain }) {
  const checks = Object.entries(explain.checks);
  const { blockers } = explain;
  if (!blockers.length && !checks.length) return null;
  const rest = blockers.slice(MOST_BLOCKERS);
  return html`<section aria-labelledby="blockers">
    <h2 id="blockers">What keeps it from starting</h2>
    <ol class="blockers">
      ${blockers.slice(0, MOST_BLOCKERS).map((each, index) => html`<${Blocker} key=${index} blocker=${each} />`)}
      ${checks.map(([name, state]) => html`<li key=${name}>The admission check ${name} is ${state}.</li>`)}
    </ol>
    ${rest.length > 0 &&
    html`<details>
      <summary>and ${count(rest.length, "more reason")}</summary>
      <ol class="blockers" start=${MOST_BLOCKERS + 1}>
        ${rest.map((each, index) => html`<${Blocker} key=${index} blocker=${each} />`)}
      </ol>
    </details>`}
  </section>`;
}

function Blocker({ blocker }) {
  return html`<li>
    <${Badge}>${blocker.reason}<//>${" "}${blocker.message}
    ${blocker.quota && html` <${Link} to=${pathTo("quotas", blocker.quota)}>Show the quota<//>`}
    ${blocker.other && html` <${UnitLink} unit=${blocker.other} />`}
  </li>`;
}

/** The smallest changes. Only asked for by the viewer: the server tries each on a copy. */
function Changes({ path }) {
  const [{ found, error, isAsking }, setState] = useState({});
  async function find() {
    setState({ isAsking: true });
    try {
      setState({ found: await ask(`${path}/changes`) });
    } catch (failure) {
      setState({ error: failure });
    }
  }
  return html`<section aria-labelledby="changes">
    <h2 id="changes">What would start it</h2>
    ${error && html`<${Problem} error=${error} />`}
    <div aria-live="polite">${found && html`<${ChangeList} explain=${found} />`}</div>
    ${!found &&
    html`<button type="button" onClick=${find} disabled=${isAsking}>
      ${isAsking ? "Trying changes…" : "Find the smallest changes"}
    </button>`}
  </section>`;
}

function ChangeList({ explain }) {
  const changes = explain.changes ?? [];
  const isFact = (each) => each.practical === false || each.kind === "wait";
  const facts = changes.filter(isFact);
  const made = changes.filter((each) => !isFact(each));
  return html`
    ${made.length > 0
      ? html`<ol class="changes">
          ${made.map((each, index) => html`<${Change} key=${index} change=${each} />`)}
        </ol>`
      : html`<${Empty}>No change was found that would start it now.<//>`}
    ${facts.map((each, index) => html`<p key=${index}>${each.description}</p>`)}
    ${explain.changesComplete === false &&
    html`<p class="hint">There was no time to try every kind of change.</p>`}
  `;
}

function Change({ change }) {
  const { alsoStarts, otherStarts, units, otherUnits } = change;
  const starts = alsoStarts.length + otherStarts;
  const ends = units.length + otherUnits;
  return html`<li>
    ${change.sufficient
      ? html`<${Badge} tone="good">enough<//>`
      : html`<${Badge} tone="warn">not enough alone<//>`}
    ${" "}${change.description}
    ${starts > 0 && html` ${count(starts, "unit")} would start before it.`}
    ${ends > 0 &&
    html` <span>${units.slice(0, 5).map((each) => html`<${UnitLink} key=${each} unit=${each} />${" "}`)}
        ${ends > 5 ? `and ${ends - 5} more` : ""}</span>`}
    ${change.patches.map(
      (patch, index) => html`<${Snippet} key=${index} text=${patchCommand(patch)} label="as kubectl" />`,
    )}
  </li>`;
}

function Admitted({ admitted }) {
  if (!admitted) return null;
  const { eviction, borrowed } = admitted;
  return html`<section aria-labelledby="admitted">
    <h2 id="admitted">What it was admitted on</h2>
    ${admitted.limits
      ? html`<ul>
          ${admitted.limits.map(
            (each, index) => html`<li key=${index}>
              ${each.kind} of quota ${each.quota}: ${each.used} of ${each.limit} ${each.resource} was
              used, ${each.requested} requested
            </li>`,
          )}
        </ul>`
      : html`<p>${admitted.limitsUnknown}</p>`}
    ${borrowed?.length > 0 &&
    html`<h3>What it borrows</h3>
      <ul>${borrowed.map((each, index) => html`<${Loan} key=${index} loan=${each} />`)}</ul>`}
    <h3>What could evict it</h3>
    ${eviction.possible
      ? html`<p>${eviction.units.length ? "These waiting units would choose it:" : "No unit that waits now would choose it."}</p>
          <ul>
            ${eviction.units.map(
              (each) => html`<li key=${`${each.namespace}/${each.name}`}>
                <${UnitLink} unit=${`${each.namespace}/${each.name}`} /> of queue ${each.queue}, priority ${each.priority}
              </li>`,
            )}
          </ul>
          <${Others} number=${eviction.others} />`
      : html`<p>Nothing.</p>`}
    <ul>${eviction.spared.map((each) => html`<li key=${each.reason}>${each.message}</li>`)}</ul>
  </section>`;
}

export function Loan({ loan }) {
  const lenders = loan.lenders.map((each) => `${each.quota} (at most ${each.amount})`).join(", ");
  return html`<li>
    Quota ${loan.quota} uses ${loan.borrowed} ${loan.resource} above what it is guaranteed
    ${lenders ? `, of ${lenders}` : ", of what no quota is guaranteed"}.
  </li>`;
}

function WhenItStarts({ forecast, explain, at }) {
  // A unit that is held has one only if it is known that it does not start.
  if (at || !(explain.verdict === "waiting" || (explain.verdict === "held" && forecast))) return null;
  return html`<section aria-labelledby="forecast">
    <h2 id="forecast">When it starts</h2>
    ${forecast
      ? html`<${Foreseen} forecast=${forecast} />`
      : html`<${Empty}>
          There is no forecast of it yet: a new one is made every one to four minutes, of what waits then.
        <//>`}
  </section>`;
}

function Foreseen({ forecast }) {
  if (forecast.outlook === "neverAsIs") return html`<p>It ${forecast.noTimes}.</p>`;
  if (forecast.outlook === "notKnownYet") {
    return html`<p>When it starts is ${forecast.noTimes}.</p>
      <p class="hint">
        Times are told when ${count(forecast.neededRuns, "run")} of its quota, user, kind and request
        have ended within eight days.
      </p>`;
  }
  return html`<${ForecastChart} forecast=${forecast} />
    <p class="hint">
      Based on ${count(forecast.similarRuns, "similar run")}, ${count(forecast.sample, "possible future")};${" "}
      ${span(forecast.ageSeconds)} old.
    </p>`;
}

function Pods({ podSets }) {
  if (!podSets.length) return null;
  return html`<section aria-labelledby="pods">
    <h2 id="pods">Pods</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Pods">
      <table>
        <thead>
          <tr>
            <th scope="col">Pod set</th>
            ${["Asked for", "Granted", "Given back", "Held"].map(
              (word) => html`<th scope="col" class="number" key=${word}>${word}</th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${podSets.map(
            (each) => html`<tr key=${each.name}>
              <th scope="row">${each.name}</th>
              ${[each.asked, each.granted, each.givenBack, each.held].map(
                (number, index) => html`<td class="number" key=${index}>${number ?? "not known"}</td>`,
              )}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${podSets.some((each) => each.granted === null) &&
    html`<p class="hint">The job has ended: what it was granted is no longer in its unit.</p>`}
  </section>`;
}

function Timeline({ unit, log }) {
  return html`<section aria-labelledby="timeline">
    <h2 id="timeline">What happened</h2>
    ${log === null
      ? html`<${Empty}>
          Nothing is recorded. To keep what is decided, give the insight program a folder with
          ${" "}<code>--record-dir</code>.
        <//>`
      : html`<ol class="timeline" reversed>
          ${log.map((each) => html`<${Entry} key=${each.number} entry=${each} />`)}
          <li><time datetime=${unit.created}>${clockTime(unit.created)}</time> created</li>
        </ol>`}
  </section>`;
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
