// One unit: why it waits, what would start it, when it starts, and what was decided about it.
import { session, useAnswer } from "./api.js";
import { clockTime, count, secondsBetween, showAmounts, span } from "./format.js";
import { ForecastChart } from "./forecast_chart.js";
import { GoneUnit } from "./gone_unit.js";
import { html } from "./html.js";
import { explainCommand } from "./kubectl.js";
import { Answered, Badge, CopyButton, Empty, Facts, JobsLink, Others, UnitLink } from "./parts.js";
import { Link, pathTo, place, whatIfPath } from "./router.js";
import { Changes } from "./unit_changes.js";
import { UnitObjects } from "./unit_objects.js";
import { Timeline } from "./unit_timeline.js";

export function Unit({ namespace, name }) {
  const at = place.value.query.get("at");
  const path = `/page/units/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const key = `${namespace}/${name}`;
  const asked = useAnswer(at ? `${path}?at=${encodeURIComponent(at)}` : path, (latest) =>
    // A unit waits for others of its queue: their news are its news.
    !at && (latest.units.includes(key) || latest.queues.includes(asked.answer?.unit?.queue)),
  );
  const show = (answer) =>
    answer.unit ? html`<${Shown} ...${{ answer, path, at }} />` : html`<${GoneUnit} ...${{ answer, at }} />`;
  return html`
    <h1>${key}</h1>
    <${Answered} asked=${asked} show=${show} />
  `;
}

const TONES = {
  waiting: "warn",
  "on hold": "bad",
  reserved: "good",
  starting: "good",
  running: "good",
  finished: "plain",
};

function Shown({ answer, path, at }) {
  const { unit, explain } = answer;
  return html`
    <p class="summary">
      <${Badge} tone=${TONES[explain.state]}>${explain.state}<//>${" "}${explain.summary}
    </p>
    ${explain.neverStarts && html`<p class="problem error">It is larger than a limit: waiting does not help.</p>`}
    <p class="controls">
      <${CopyButton} text=${explainCommand(unit.namespace, unit.name)}>Copy as kubectl<//>
      ${!at && unit.quota && explain.blockers.length > 0 && session.value?.whatIf && html`<${Link} to=${whatIfOf(unit, explain)}>What if its quota were different?<//>`}
    </p>
    <${About} unit=${unit} run=${answer.run} stateAt=${answer.stateAt} at=${at} />
    <${Blockers} explain=${explain} />
    <${Ahead} ahead=${answer.ahead} queue=${unit.queue} />
    ${!at && explain.verdict !== "admitted" && explain.verdict !== "finished" && html`<${Changes} path=${path} known=${answer.changes} />`}
    <${Admitted} admitted=${explain.admitted} />
    <${WhenItStarts} forecast=${answer.forecast} explain=${explain} at=${at} />
    <${Pods} podSets=${unit.podSets} />
    ${!at && html`<${UnitObjects} unit=${unit} pods=${answer.pods} podCount=${answer.podCount} path=${path} stateAt=${answer.stateAt} />`}
    <${Timeline} created=${unit.created} until=${endOf(answer)} log=${answer.log} />
  `;
}

/** Return the address of the question what a larger quota would do, about what is scarcest. */
function whatIfOf({ namespace, name, quota }, { blockers: [first] }) {
  return whatIfPath({ quota, resource: first.resource, unit: `${namespace}/${name}` });
}

/** Where the line of time ends: of a unit that has ended, with the last that is known of it. */
function endOf({ explain, run, log, stateAt }) {
  return explain.verdict === "finished" ? (run.ended ?? log?.[0]?.time ?? stateAt) : stateAt;
}

function About({ unit, run, stateAt, at }) {
  const { job } = unit;
  // Until it has run, the age says how long it has waited.
  const waited = run.started ? span(run.waitedSeconds) : "";
  return html`<${Facts}
    pairs=${[
      ["Queue", unit.queue && html`<${Link} to=${pathTo("queues", unit.queue)}>${unit.queue}<//>`],
      ["Quota", unit.quota && html`<${Link} to=${pathTo("quotas", unit.quota)}>${unit.quota}<//>`],
      ["Position", unit.position || ""],
      ["Priority", unit.specPriority == null ? unit.priority : `${unit.priority} (its own: ${unit.specPriority})`],
      ["User", run.user && html`<${JobsLink} filter=${`user=${run.user}`}>${run.user}<//>`],
      ["Job", job?.kind ? `${job.kind} ${job.name}` : ""],
      ["Phase", unit.phase],
      ["Requests", showAmounts(unit.demand)],
      ["Created", `${clockTime(unit.created)} (${span(secondsBetween(unit.created, stateAt))} ${at ? "before" : "ago"})`],
      ["Waited", waited],
      ["Started", clockTime(run.started)],
      ["Ended", clockTime(run.ended)],
      ["Ran", span(run.ranSeconds)],
      ["Likely end", clockTime(run.ends)],
      ["Starts at the latest", unit.promisedStart && clockTime(unit.promisedStart)],
      ["Pods are not ready", unit.podsNotReady],
    ]}
  />`;
}

/** Units ahead that are shown at first. */
const MOST_AHEAD = 5;

/** Who comes before it, and why: the first of its queue that the viewer may list. */
function Ahead({ ahead, queue }) {
  if (!ahead?.total) return null;
  const { total, units } = ahead;
  const more = units.slice(MOST_AHEAD);
  const rest = total - units.length;
  return html`<section aria-labelledby="ahead">
    <h2 id="ahead">What is ahead of it</h2>
    <p>${count(total, "unit")} ${total === 1 ? "is" : "are"} ahead of it in queue ${queue}.</p>
    ${units.length > 0 &&
    html`<${AheadList} units=${units.slice(0, MOST_AHEAD)} />`}
    ${more.length > 0 &&
    html`<details>
      <summary>and ${count(more.length, "more unit")}</summary>
      <${AheadList} units=${more} />
    </details>`}
    ${units.length > 0 && rest > 0 && html`<p class="hint">${count(rest, "further unit")} not named here.</p>`}
  </section>`;
}

function AheadList({ units }) {
  return html`<ol class="ahead">
    ${units.map(
      (each) => html`<li key=${`${each.namespace}/${each.name}`} value=${each.position}>
        <${UnitLink} unit=${`${each.namespace}/${each.name}`} />: ${each.why}
      </li>`,
    )}
  </ol>`;
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
    ${blocker.quota && blocker.reason !== "NoQuota" && html` <${Link} to=${pathTo("quotas", blocker.quota)}>Show the quota<//>`}
    ${blocker.other?.includes("/") && html` <${UnitLink} unit=${blocker.other} />`}
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
          When it starts is not known yet: it was created after the last forecast. A new one is made every one
          to four minutes.
        <//>`}
  </section>`;
}

function Foreseen({ forecast }) {
  if (forecast.outlook === "neverAsIs") return html`<p>It ${forecast.noTimes}.</p>`;
  if (forecast.outlook === "notKnownYet") {
    return html`<p>When it starts is ${forecast.noTimes}.</p>
      <p class="hint">
        Times are shown once ${count(forecast.neededRuns, "run")} of its quota, user, kind and request
        have ended within eight days.
      </p>`;
  }
  return html`<${ForecastChart} forecast=${forecast} />
    <p class="hint">
      Based on ${count(forecast.similarRuns, "similar run")}, ${count(forecast.sample, "possible future")};${" "}
      ${span(forecast.ageSeconds)} old.
    </p>`;
}

const POD_COUNTS = [["Asked for", "asked"], ["Granted", "granted"], ["Given back", "givenBack"], ["Charged", "held"]];

function Pods({ podSets }) {
  if (!podSets.length) return null;
  return html`<section aria-labelledby="pods">
    <h2 id="pods">Pods</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Pods">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">Pod set</th>
            ${POD_COUNTS.map(([word]) => html`<th scope="col" class="number" key=${word}>${word}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${podSets.map(
            (each) => html`<tr key=${each.name}>
              <th scope="row">${each.name}</th>
              ${POD_COUNTS.map(
                ([word, field]) => html`<td class="number" key=${field} data-label=${word.toLowerCase()}>
                  ${each[field] ?? "not known"}
                </td>`,
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
