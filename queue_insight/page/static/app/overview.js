// What needs attention, how busy it is, the queues, and the quotas.
import { useAnswer } from "./api.js";
import { asSentence, clockTime, count, perHour, shortReason, showAmount, span } from "./format.js";
import { html } from "./html.js";
import { LastHour } from "./over_time.js";
import { AdmittedLink, Answered, Badge, CopyButton, Empty, JobsLink, UnitLink } from "./parts.js";
import { BarLegend, QuotaTree, SumsHidden, UseBar, UseLegend, resourcesOf, usesOf } from "./quota_bars.js";
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
    <${Busy} ...${{ answer, at }} />
    <${Queues} queues=${answer.queues} unqueued=${answer.unqueued} />
    <${Quotas} quotas=${answer.quotas} />
    <${Basis} answer=${answer} at=${at} />
  `;
}

function Problems({ problems, at }) {
  if (!problems.length) {
    return html`<p class="fine"><${Badge} tone="good">OK<//> Nothing ${at ? "needed" : "needs"} attention.</p>`;
  }
  return html`<section aria-labelledby="wrong">
    <h2 id="wrong">${at ? "Needed" : "Needs"} attention</h2>
    <ul class="problems">
      ${problems.map(
        (each, index) => html`<li key=${index} class=${`problem ${each.severity}`}>
          <p>
            <${Badge} tone=${each.severity === "error" ? "bad" : "warn"}>${each.severity}<//>
            ${" "}<strong>${each.kind} ${each.name}</strong>: ${asSentence(each.message)}
          </p>
          <${Named} problem=${each} />
          <${NextStep} problem=${each} />
        </li>`,
      )}
    </ul>
  </section>`;
}

/** What to do next; a command is there to be copied. */
function NextStep({ problem: { next, command } }) {
  if (!next && !command) return null;
  return html`<div class="next">
    <span>${next}</span>
    ${command && html`<code>${command}</code> <${CopyButton} text=${command}>Copy<span class="hidden"> ${command}</span><//>`}
  </div>`;
}

/** The units that a problem is about, as links. */
function Named({ problem: { units, moreUnits } }) {
  if (!units.length) return null;
  return html`<p>
    ${units.map((each) => html`<${UnitLink} key=${each} unit=${each} />${" "}`)}
    ${moreUnits > 0 && `and ${moreUnits.toLocaleString("en-US")} more`}
  </p>`;
}

/** Bars that are shown at first: of more the table of quotas has all. */
const MOST_BARS = 8;

/** How many units there are, and how much of each quota tree is used, the fullest first. */
function Busy({ answer: { queues, unqueued, quotas, record }, at }) {
  const bars = usesOf(quotas);
  if (!bars.length && !queues.length) return null;
  return html`<section aria-labelledby="busy">
    <h2 id="busy">How busy it ${at ? "was" : "is"}</h2>
    <${Totals} ...${{ queues, unqueued }} />
    ${bars.length > 0 && html`<${BusyTable} bars=${bars} />`}
    ${!at && record?.on && html`<${LastHour} />`}
    <p><${Link} to="/over-time">How busy it was over time<//></p>
  </section>`;
}

/** The units of all queues, and those in none, as links to the list of all jobs. */
function Totals({ queues, unqueued }) {
  const sum = (field) => queues.reduce((total, queue) => total + queue[field], 0);
  return html`<p>
    <${JobsLink} filter="state:pending">${count(sum("pending") + unqueued, "unit")} pending<//>,${" "}
    <${JobsLink} filter="state:admitted">${sum("admitted").toLocaleString("en-US")} admitted<//>
  </p>`;
}

function BusyTable({ bars }) {
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label="Use of quota trees">
      <table class="cards busy">
        <thead>
          <tr>
            <th scope="col">Quota tree</th>
            <th scope="col">Resource</th>
            <th scope="col" class="wide">Use</th>
            ${["Used", "Borrowed", "Free", "Total"].map((word) => html`<th scope="col" class="number" key=${word}>${word}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${bars.slice(0, MOST_BARS).map((use) => html`<${BusyRow} key=${`${use.name} ${use.resource}`} use=${use} />`)}
        </tbody>
      </table>
    </div>
    <${UseLegend} />
    ${bars.length > MOST_BARS && html`<p class="others">${count(bars.length - MOST_BARS, "bar")} less full, below among the quotas.</p>`}
  `;
}

function BusyRow({ use }) {
  const { name, isOne, resource, used, borrowed, room, isHidden } = use;
  const show = (amount) => (isHidden ? "" : showAmount(resource, amount));
  return html`<tr>
    <th scope="row">${isOne ? html`<${Link} to=${pathTo("quotas", name)}>${name}<//>` : name}</th>
    <td class="aside">${resource}</td>
    <td class="wide">
      ${isHidden ? html`<${SumsHidden} />` : html`<${UseBar} ...${{ used, borrowed, room }} />`}
    </td>
    <td class="number" data-label="used">${show(used)}</td>
    <td class="number" data-label="borrowed">${borrowed ? show(borrowed) : ""}</td>
    <td class="number" data-label="free">${show(Math.max(0, room - used))}</td>
    <td class="number" data-label="of total">${showAmount(resource, room)}</td>
  </tr>`;
}

function Queues({ queues, unqueued }) {
  return html`<section aria-labelledby="queues">
    <h2 id="queues">Queues</h2>
    ${queues.length
      ? html`<div class="scroll" tabindex="0" role="group" aria-label="Queues">
          <table class="cards queues">
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
      or prevents ${unqueued === 1 ? "it" : "them"} from starting.
    </p>`}
  </section>`;
}

function QueueRow({ queue }) {
  return html`<tr>
    <th scope="row"><${Link} to=${pathTo("queues", queue.name)}>${queue.name}<//></th>
    <td class="aside"><${QueueState} queue=${queue} /></td>
    <td class="number" data-label="pending">${queue.pending.toLocaleString("en-US")}</td>
    <td class="number" data-label="admitted"><${AdmittedLink} queue=${queue} /></td>
    <td class="number" data-label="per hour">${perHour(queue.admissionsPerHour)}</td>
    <td class="number" data-label="oldest wait">${span(queue.oldestSeconds)}</td>
    <td class="text line"><${Head} head=${queue.head} /></td>
  </tr>`;
}

/** Whether units start from a queue. Its policy, the order in which they do, is in its own view. */
function QueueState({ queue: { stopPolicy, problems } }) {
  const isStopped = stopPolicy && stopPolicy !== "None";
  return html`${isStopped ? html`<${Badge} tone="warn">Stopped (${stopPolicy})<//>` : "Active"}
    ${problems?.length > 0 && html` <${Badge} tone="warn">${count(problems.length, "problem")}<//>`}`;
}

function Head({ head }) {
  if (!head) return "";
  return html`<${Link} to=${pathTo("units", head.namespace, head.name)}>${head.namespace}/${head.name}<//>
    ${" "}${head.refusal
      ? html`<span title=${head.refusal.message}>${shortReason(head.refusal)}</span>`
      : "starts next"}`;
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

/** A time of the record to show, in the viewer's zone. */
function EarlierTime({ from, to }) {
  function show(event) {
    event.preventDefault();
    const typed = new Date(new FormData(event.target).get("time"));
    if (!Number.isNaN(typed.getTime())) setQuery({ at: typed.toISOString() });
  }
  return html`<form class="inline" onSubmit=${show}>
    <label>an earlier time${" "}
      <input type="datetime-local" name="time" step="1" min=${localTime(from)} max=${localTime(to)} required />
    </label>
    ${" "}<button type="submit">Show it</button>
  </form>`;
}

/** Return a time of the API as fields for local times have it. */
function localTime(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return undefined;
  const inZone = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return inZone.toISOString().slice(0, 19);
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
          ? html`A record since ${clockTime(record.from)}: <${EarlierTime} from=${record.from} to=${record.to} />`
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
