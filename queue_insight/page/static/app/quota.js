// One quota: its amounts, its use over the last day, who borrows from whom.
import { session, useAnswer } from "./api.js";
import { showAmount } from "./format.js";
import { html } from "./html.js";
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
    <${UserLimits} rows=${answer.userLimits} others=${answer.otherUserLimits} />
  `;
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
