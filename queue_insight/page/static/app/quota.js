// One quota: its amounts, its use over the last day, who borrows from whom.
import { session, useAnswer } from "./api.js";
import { clockTime, count, showAmount, span } from "./format.js";
import { html } from "./html.js";
import { InTheCluster, StatedIn } from "./manifest.js";
import { LastDayOfQuota, overTimeOf } from "./over_time.js";
import { Answered, Empty } from "./parts.js";
import { BarLegend, QuotaTree, numbersOf, resourcesOf } from "./quota_bars.js";
import { Link, pathTo, place, setQuery, whatIfPath } from "./router.js";

export function Quota({ name }) {
  const at = place.value.query.get("at");
  const path = `/page/quotas/${encodeURIComponent(name)}`;
  const asked = useAnswer(
    at ? `${path}?at=${encodeURIComponent(at)}` : path,
    (latest) => !at && latest.quotas.includes(name),
  );
  return html`
    <h1>Quota ${name}</h1>
    <${Answered} asked=${asked} show=${(answer) => html`<${Shown} name=${name} answer=${answer} />`} />
  `;
}

function Shown({ name, answer }) {
  const { quota, parents, children } = answer;
  const resources = resourcesOf([quota, ...children]);
  const wanted = place.value.query.get("resource");
  const resource = resources.includes(wanted) ? wanted : resources[0];
  return html`
    <${Parents} parents=${parents} name=${quota.name} />
    ${quota.problems.map((text) => html`<p class="problem" key=${text}>${text}</p>`)}
    ${resource
      ? html`
          <p class="controls">
            <label>Resource${" "}
              <select value=${resource} onChange=${(event) => setQuery({ resource: event.target.value })}>
                ${resources.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
              </select>
            </label>
            <${Link} to=${overTimeOf("quotas", name)}>Over time<//>
            ${session.value?.whatIf &&
            html`<${Link} to=${whatIfPath({ quota: quota.name, resource })}>What if it were different?<//>`}
          </p>
          <${QuotaTree} quotas=${[{ ...quota, children }]} resource=${resource} />
          <${BarLegend} />
          <${Loans} quota=${quota} siblings=${children} resource=${resource} />
          <${LastDay} name=${name} quota=${quota} resource=${resource} />
        `
      : html`<${Empty}>It limits nothing: it has neither a min nor a max.<//>`}
    <${Budgets} rows=${answer.budgets} others=${answer.otherBudgets} horizon=${answer.horizonSeconds} />
    <${UserLimits} rows=${answer.userLimits} others=${answer.otherUserLimits} />
    ${!place.value.query.get("at") && html`<${Objects} name=${name} answer=${answer} />`}
  `;
}

/** The objects that it and its settings are stated in. */
function Objects({ name, answer: { statedIn, policy } }) {
  if (!statedIn && !policy) return null;
  return html`<${InTheCluster}>
    ${statedIn && html`<${StatedIn} of="quota" name=${name} object=${statedIn} />`}
    ${policy && html`<${StatedIn} of="policy" name=${name} object=${policy} />`}
  <//>`;
}

/** What is left of the budgets here, and when nothing will be. */
function Budgets({ rows, others, horizon }) {
  if (!rows.length && !others) return null;
  return html`<section aria-labelledby="budgets">
    <h2 id="budgets">Budgets</h2>
    ${rows.length > 0 &&
    html`<table class="cards">
      <thead>
        <tr>
          <th scope="col">Budget</th>
          <th scope="col">Left</th>
          <th scope="col">When it is spent</th>
          <th scope="col">By</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr key=${`${row.policy} ${row.entry}`}>
            <td data-label="Budget">${budgetInWords(row)}</td>
            <td data-label="Left">${row.left}: ${row.spent} spent, ${row.committed} committed to what runs</td>
            <td data-label="When it is spent">${spentInWords(row, horizon)}${resetInWords(row)}</td>
            <td data-label="By">QuotaPolicy ${row.policy}, budgets ${row.entry} (${row.enforce})</td>
          </tr>`,
        )}
      </tbody>
    </table>`}
    ${others > 0 &&
    html`<p class="hint">And ${count(others, "budget")} that would tell about units that you may not list.</p>`}
  </section>`;
}

const PERIODS = { Day: "each day", Week: "each week", Month: "each month", "Rolling 30d": "in any 30 days", None: "in all" };

function budgetInWords({ limit, resource, period }) {
  return `${limit}${resource === "amount" ? "" : ` hours of ${resource}`} ${PERIODS[period] ?? period}`;
}

/** Return when nothing is left of a budget, as a sentence. */
function spentInWords({ outlook, noTimes, spentSince, spentP10, spentP50, spentP90 }, horizon) {
  if (outlook === "spent") return `Nothing has been left since ${clockTime(spentSince)}.`;
  if (noTimes) return `When it is spent is ${noTimes}.`;
  const far = `within the next ${span(horizon)}`;
  if (!spentP10) return `Not ${far}.`;
  const known = Object.entries({ 10: spentP10, 50: spentP50, 90: spentP90 }).filter(([, time]) => time);
  const chances = known.map(([n, time]) => `${n}% by ${clockTime(time)}`).join(", ");
  return `Chance that it is spent: ${chances}${spentP90 ? "" : `; less than ${spentP50 ? 90 : 50}% ${far}`}.`;
}

function resetInWords({ resetsAt }) {
  return resetsAt ? ` It begins anew at ${clockTime(resetsAt)}.` : "";
}

/** What users and groups have here and below, of what they may have. */
function UserLimits({ rows, others }) {
  if (!rows.length && !others) return null;
  return html`<section aria-labelledby="user-limits">
    <h2 id="user-limits">Limits of users and groups</h2>
    ${rows.length > 0 &&
    html`<table class="cards">
      <thead>
        <tr>
          <th scope="col">User or group</th>
          <th scope="col">Has, of what it may have</th>
          <th scope="col">By</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr key=${`${row.isGroup}${row.name}`}>
            <td data-label="User or group">${whose(row)}</td>
            <td data-label="Has, of what it may have">${shares(row).join(", ")}</td>
            <td data-label="By">QuotaPolicy ${row.policy}, userLimits ${row.entry}</td>
          </tr>`,
        )}
      </tbody>
    </table>`}
    ${others > 0 &&
    html`<p class="hint">
      And ${others} more: what they have tells about units that you may not list, or the list is too long.
    </p>`}
  </section>`;
}

function whose({ isGroup, name }) {
  if (!isGroup) return name;
  return name === "*" ? "all groups without an entry" : `group ${name}`;
}

/** Return how much of each limit is used, in words. */
function shares({ max, used, maxRunning, running }) {
  const amounts = Object.keys(max).map((key) => `${used[key]} of ${max[key]} ${key}`);
  return maxRunning === null ? amounts : [...amounts, `${running} of ${maxRunning} running units`];
}

function Parents({ parents, name }) {
  if (!parents.length) return null;
  return html`<nav aria-label="Quotas above">
    <p>
      ${parents.map((each) => html`<${Link} key=${each.name} to=${pathTo("quotas", each.name)}>${each.name}<//> / `)}
      ${name}
    </p>
  </nav>`;
}

/** Who of the children uses more than it is guaranteed, and whose guarantee that may be. */
function Loans({ quota, siblings, resource }) {
  if (quota.sumsHidden || siblings.some((each) => each.sumsHidden)) return null;
  const all = siblings.map((each) => [each.name, numbersOf(each, resource)]);
  const borrow = all.filter(([, numbers]) => numbers.borrowed > 0);
  const lend = all.filter(([, { used, guaranteed }]) => used < guaranteed);
  if (!borrow.length) return null;
  const show = (amount) => `${showAmount(resource, amount)} ${resource}`;
  return html`<section aria-labelledby="loans">
    <h2 id="loans">Who borrows from whom</h2>
    <ul>
      ${borrow.map(([name, { borrowed }]) => html`<li key=${name}>${name} uses ${show(borrowed)} above what it is guaranteed.</li>`)}
      ${lend.map(
        ([name, { used, guaranteed }]) => html`<li key=${name}>
          ${name} does not use ${show(guaranteed - used)} of what it is guaranteed, and would get as
          much back for units of its own.
        </li>`,
      )}
    </ul>
  </section>`;
}

/** What it used in the last day. Of an earlier time it is not shown: the day would be another one. */
function LastDay({ name, quota, resource }) {
  const at = place.value.query.get("at");
  return html`<section aria-labelledby="day">
    <h2 id="day">The last day</h2>
    ${quota.sumsHidden
      ? html`<${Empty}>What it used is not shown: it would reveal what one or two namespaces use whose units you may
          not list.<//>`
      : at
        ? html`<${Empty}>The use over the last day is shown only for now.<//>`
        : html`<${LastDayOfQuota} name=${name} resource=${resource} />`}
  </section>`;
}
