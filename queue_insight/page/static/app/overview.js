// What is wrong now, the quotas, and the queues.
import { useAnswer } from "./api.js";
import { clockTime, count, perHour, span } from "./format.js";
import { html } from "./html.js";
import { Answered, Badge, Empty, UnitLink } from "./parts.js";
import { BarLegend, QuotaTree, resourcesOf } from "./quota_bars.js";
import { Link, pathTo, place, setQuery } from "./router.js";

export function Overview() {
  const at = place.value.query.get("at");
  const path = at ? `/page/overview?at=${encodeURIComponent(at)}` : "/page/overview";
  const asked = useAnswer(path, () => !at);
  return html`
    <h1>Overview</h1>
    <${Answered} asked=${asked} show=${(answer) => html`<${Shown} ...${{ answer, at }} />`} />
  `;
}

function Shown({ answer, at }) {
  return html`
    <${Problems} problems=${answer.problems} at=${at} />
    <${Queues} queues=${answer.queues} unqueued=${answer.unqueued} />
    <${Quotas} quotas=${answer.quotas} />
    <${Basis} answer=${answer} at=${at} />
  `;
}

function Problems({ problems, at }) {
  if (!problems.length) {
    return html`<p class="fine"><${Badge} tone="good">OK<//> Nothing ${at ? "was" : "is"} wrong.</p>`;
  }
  return html`<section aria-labelledby="wrong">
    <h2 id="wrong">What ${at ? "was" : "is"} wrong</h2>
    <ul class="problems">
      ${problems.map(
        (each, index) => html`<li key=${index} class=${`problem ${each.severity}`}>
          <p>
            <${Badge} tone=${each.severity === "error" ? "bad" : "warn"}>${each.severity}<//>
            ${" "}<strong>${each.kind} ${each.name}</strong>: ${each.message}
          </p>
          <${Named} problem=${each} />
          ${each.next && html`<p class="next">${each.next}</p>`}
        </li>`,
      )}
    </ul>
  </section>`;
}

/** The units that a problem is about, as links. */
function Named({ problem: { units, moreUnits } }) {
  if (!units.length) return null;
  return html`<p>
    ${units.map((each) => html`<${UnitLink} key=${each} unit=${each} />${" "}`)}
    ${moreUnits > 0 && `and ${moreUnits.toLocaleString("en-US")} more`}
  </p>`;
}

function Queues({ queues, unqueued }) {
  return html`<section aria-labelledby="queues">
    <h2 id="queues">Queues</h2>
    ${queues.length
      ? html`<div class="scroll" tabindex="0" role="group" aria-label="Queues">
          <table>
            <thead>
              <tr>
                <th scope="col">Queue</th>
                <th scope="col">State</th>
                <th scope="col" class="number">Pending</th>
                <th scope="col" class="number">Admitted</th>
                <th scope="col" class="number">Admitted per hour</th>
                <th scope="col" class="number">Oldest wait</th>
                <th scope="col">First to start</th>
              </tr>
            </thead>
            <tbody>
              ${queues.map((queue) => html`<${QueueRow} key=${queue.name} queue=${queue} />`)}
            </tbody>
          </table>
        </div>`
      : html`<${Empty}>There are no queues. Create one: an ElasticQuota gets a queue of its name, or
          apply a Queue object.<//>`}
    ${unqueued > 0 &&
    html`<p>
      <${Link} to=${pathTo("unqueued")}>${count(unqueued, "unit")} in no queue<//>: something is missing,
      or forbids ${unqueued === 1 ? "it" : "them"} to start.
    </p>`}
  </section>`;
}

function QueueRow({ queue }) {
  return html`<tr>
    <th scope="row"><${Link} to=${pathTo("queues", queue.name)}>${queue.name}<//></th>
    <td><${QueueState} queue=${queue} /></td>
    <td class="number">${queue.pending.toLocaleString("en-US")}</td>
    <td class="number">${queue.admitted.toLocaleString("en-US")}</td>
    <td class="number">${perHour(queue.admissionsPerHour)}</td>
    <td class="number">${span(queue.oldestSeconds)}</td>
    <td class="text"><${Head} head=${queue.head} /></td>
  </tr>`;
}

function QueueState({ queue }) {
  const isStopped = queue.stopPolicy && queue.stopPolicy !== "None";
  return html`${queue.policy}
    ${isStopped && html` <${Badge} tone="warn">${queue.stopPolicy}<//>`}
    ${queue.problems?.length > 0 && html` <${Badge} tone="warn">${queue.problems.length} wrong<//>`}`;
}

function Head({ head }) {
  if (!head) return "";
  return html`<${Link} to=${pathTo("units", head.namespace, head.name)}>${head.namespace}/${head.name}<//>
    ${head.refusal ? html` ${head.refusal.message}` : " starts next"}`;
}

function Quotas({ quotas }) {
  const resources = resourcesOf(quotas);
  const wanted = place.value.query.get("resource");
  const resource = resources.includes(wanted) ? wanted : resources[0];
  return html`<section aria-labelledby="quotas">
    <h2 id="quotas">Quotas</h2>
    ${resources.length
      ? html`<p class="controls">
            <label>Resource${" "}
              <select value=${resource} onChange=${(event) => setQuery({ resource: event.target.value })}>
                ${resources.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
              </select>
            </label>
          </p>
          <${QuotaTree} quotas=${quotas} resource=${resource} />
          <${BarLegend} />`
      : html`<${Empty}>There are no quotas, or you may not see them. Units of a queue without a
          quota are limited by nothing.<//>`}
  </section>`;
}

/** What the page is based on, and what is missing. */
function Basis({ answer, at }) {
  const { record, forecast } = answer;
  const isOn = record?.on;
  return html`<section class="basis" aria-labelledby="basis">
    <h2 id="basis">What this is based on</h2>
    <ul>
      <li>
        The state of ${clockTime(answer.stateAt)}.
        ${answer.leader ? "" : " The replica that answers is not the one that decides."}
      </li>
      <li>
        ${isOn
          ? html`A record since ${clockTime(record.from)}: earlier moments can be shown.`
          : html`No record is kept, so there are no timelines and no history. To keep one, give the
              insight program a folder with <code>--record-dir</code>.`}
      </li>
      ${!at &&
      html`<li>
        ${forecast
          ? html`Forecasts are ${span(forecast.ageSeconds)} old.`
          : html`There is no forecast yet. The first one is made within four minutes after the
              insight program has begun to follow the scheduler.`}
      </li>`}
    </ul>
  </section>`;
}
