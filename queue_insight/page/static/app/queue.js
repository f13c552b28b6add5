// One queue: its line, filtered and sorted by the server; and the units that are in none.
import { clockTime, perHour, secondsBetween, shortReason, showAmounts, span } from "./format.js";
import { html, useEffect, useState } from "./html.js";
import { InTheCluster, StatedIn } from "./manifest.js";
import { overTimeOf } from "./over_time.js";
import { AdmittedLink, Badge, Empty, Facts, Loading, Others, Problem } from "./parts.js";
import { Link, pathTo, place, setQuery } from "./router.js";
import { VirtualTable, usePages } from "./table.js";

const TYPING_MILLISECONDS = 300;

/** Return the columns; waits are as of the time of the answer, which may be an earlier one. */
const columnsAt = (stateAt) => [
  { key: "position", title: "Position", sort: "position", cell: (unit) => unit.position || "on hold" },
  {
    key: "unit",
    title: "Unit",
    sort: "name",
    cell: (unit) =>
      html`<${Link} to=${pathTo("units", unit.namespace, unit.name)}>${unit.namespace}/${unit.name}<//>`,
    hint: (unit) => `${unit.namespace}/${unit.name}`,
  },
  { key: "priority", title: "Priority", sort: "priority", cell: (unit) => unit.priority },
  {
    key: "waits",
    title: "Waits",
    sort: "created",
    cell: (unit) => span(secondsBetween(unit.created, stateAt)),
    hint: (unit) => `since ${clockTime(unit.created)}`,
  },
  {
    key: "demand",
    title: "Requests",
    cell: (unit) => showAmounts(unit.demand),
    hint: (unit) => showAmounts(unit.demand),
  },
  { key: "reason", title: "Why it waits", cell: reasonOf, hint: whyOf },
  {
    key: "start",
    title: "Likely start",
    cell: (unit) => clockTime(unit.starts) || unit.noStart,
    hint: (unit) => (unit.starts ? "in half of the possible futures it starts earlier" : undefined),
  },
];

const ITS_TURN = "It starts when it is its turn.";

/** What differs among the units of a list; all numbers are in the hint, and in the unit's view. */
function reasonOf({ refusal }) {
  return refusal ? shortReason(refusal) : ITS_TURN;
}

function whyOf({ refusal }) {
  return refusal ? refusal.message : ITS_TURN;
}

// Of units that are in no queue, and do not start as they are.
const IN_QUEUES_ONLY = ["position", "start"];

export function Queue({ name }) {
  const path = `/page/queues/${encodeURIComponent(name)}`;
  return html`
    <h1>Queue ${name}</h1>
    <${Units}
      path=${path}
      concerns=${(latest) => latest.queues.includes(name)}
      head=${(first) => html`<${Head} queue=${first.queue} />`}
      tail=${(first) => html`
        <${Accounts} accounts=${first.accounts} />
        <${Objects} name=${name} object=${first.statedIn} />
      `}
      hasTable=${true}
      first="position"
      columnsOf=${columnsAt}
      label=${`Units of queue ${name}`}
      nothing="Nothing waits in this queue. Units appear here when a job that names it, or a quota of it, is created."
    />
  `;
}

/** The units that stand in no queue: a queue or a quota is missing, or a user must act. */
export function Unqueued() {
  return html`
    <h1>Units in no queue</h1>
    <p>Something is missing, or prevents them from starting. Each says why.</p>
    <${Units}
      path="/page/unqueued"
      concerns=${() => true}
      head=${() => null}
      tail=${() => null}
      hasTable=${false}
      first="name"
      columnsOf=${(stateAt) => columnsAt(stateAt).filter(({ key }) => !IN_QUEUES_ONLY.includes(key))}
      label="Units in no queue"
      nothing="Every unit that waits is in a queue."
    />
  `;
}

/**
 * A list of units, by pages.
 *
 * `concerns(news)` says when what was answered is old, `head(answer)` is shown above it and
 * `tail(answer)` below, `first` is what it is sorted by unless the address says otherwise, `nothing`
 * is said where there are none.
 */
function Units({ path, concerns, head, tail, hasTable, first: order, columnsOf, label, nothing }) {
  const { query } = place.value;
  const kept = new URLSearchParams();
  for (const field of ["filter", "sort", "at"]) if (query.get(field)) kept.set(field, query.get(field));
  const pages = usePages(
    `${path}?${kept}`,
    (offset, limit) => `${path}?${new URLSearchParams([...kept, ["offset", offset], ["limit", limit]])}`,
    (latest) => !query.get("at") && concerns(latest),
  );
  const { first, error, again } = pages;
  const isUnknown = error?.status === 404;
  const sort = query.get("sort") ?? order;
  const onSort = (wanted) => setQuery({ sort: wanted === order ? "" : wanted });
  return html`
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${first && head(first)}
    ${!isUnknown && html`<${Controls} query=${query} csv=${hasTable && `${path}.csv?${kept}`} />`}
    ${first
      ? html`<${Line} ...${{ pages, columnsOf, label, nothing, sort, onSort }} isFiltered=${kept.has("filter")} />`
      : !error && html`<${Loading} />`}
    ${first && tail(first)}
  `;
}

/** The object that it is stated in. */
function Objects({ name, object }) {
  if (!object || place.value.query.get("at")) return null;
  return html`<${InTheCluster}><${StatedIn} of="queue" name=${name} object=${object} /><//>`;
}

/** How much of their shares the accounts of a queue with the policy Fair have used. */
function Accounts({ accounts }) {
  if (!accounts) return null;
  const { items, others } = accounts;
  if (!items.length && !others) return null;
  return html`<section aria-labelledby="shares">
    <h2 id="shares">Use of fair shares</h2>
    <p class="hint">1 is the average by weights; whoever has used less comes first.</p>
    ${items.length > 0 &&
    html`<table class="cards">
      <thead>
        <tr>
          <th scope="col">Account</th>
          ${ACCOUNT_COLUMNS.map(([title]) => html`<th key=${title} scope="col" class="number">${title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${items.map(
          (each) => html`<tr key=${`${each.level}/${each.group}/${each.name}`}>
            <th scope="row">${accountOf(each)}</th>
            ${ACCOUNT_COLUMNS.map(
              ([title, cell]) => html`<td key=${title} class="number" data-label=${title.toLowerCase()}>${cell(each)}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>`}
    ${others > 0 &&
    html`<p class="hint">
      And ${others} more: what they have used tells about units that you may not list, or the list is too long.
    </p>`}
  </section>`;
}

const ACCOUNT_COLUMNS = [
  ["Weight", ({ weight }) => weight],
  ["Used, times its share", ({ timesShare }) => (timesShare === null ? "comes last" : timesShare.toFixed(2))],
  ["Pending", ({ pending }) => pending],
  ["Running", ({ running }) => running],
];

function accountOf({ level, group, name }) {
  if (level === "group") return name ? `group ${name}` : "no group";
  return group ? `${name} of group ${group}` : name;
}

function Head({ queue }) {
  const isStopped = queue.stopPolicy !== "None";
  return html`
    ${isStopped &&
    html`<p><${Badge} tone="warn">${queue.stopPolicy}<//> The queue is stopped: nothing starts from it.</p>`}
    ${queue.problems.map((text) => html`<p class="problem" key=${text}>${text}</p>`)}
    <${Facts}
      pairs=${[
        ["Policy", queue.policy],
        ["Pending", queue.pending.toLocaleString("en-US")],
        ["Admitted", html`<${AdmittedLink} queue=${queue} />`],
        ["Admitted per hour", perHour(queue.admissionsPerHour)],
        ["Oldest wait", span(queue.oldestSeconds)],
        ["Backfill", queue.backfill ? "yes" : ""],
        ["Highest priority", queue.maxPriority],
        ["Quotas", html`<${Quotas} names=${queue.quotas} />`],
      ]}
    />
    <p><${Link} to=${overTimeOf("queues", queue.name)}>Over time<//></p>
  `;
}

function Quotas({ names }) {
  if (!names?.length) return "none";
  return names.map(
    (each, index) => html`<span key=${each}>
      ${index ? ", " : ""}${each === "*" ? "all" : html`<${Link} to=${pathTo("quotas", each)}>${each}<//>`}
    </span>`,
  );
}

function Controls({ query, csv }) {
  const [typed, setTyped] = useState(query.get("filter") ?? "");
  useEffect(() => {
    const timer = setTimeout(() => setQuery({ filter: typed.trim() }), TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<form class="controls" role="search" onSubmit=${(event) => event.preventDefault()}>
    <label class="field">
      Filter by namespace, name, job or reason
      <input
        type="search"
        value=${typed}
        onInput=${(event) => setTyped(event.target.value)}
        aria-describedby="filter-hint"
      />
    </label>
    ${csv && html`<a href=${csv} download>Download as CSV</a>`}
    <p class="hint" id="filter-hint">All words must fit; <code>quota:vision</code> looks in one field.</p>
  </form>`;
}

function Line({ pages, columnsOf, label, nothing, sort, onSort, isFiltered }) {
  const { first, units } = pages;
  if (first.total === 0) {
    return isFiltered
      ? html`<${Empty}>No unit matches the filter.<//>`
      : html`<${Empty}>${nothing}<//>
          <${Others} number=${first.others} />`;
  }
  return html`
    <p class="hint" role="status">${first.total.toLocaleString("en-US")} ${first.total === 1 ? "unit" : "units"}</p>
    <${VirtualTable}
      columns=${columnsOf(first.stateAt)}
      total=${first.total}
      rowAt=${(index) => units.get(index)}
      label=${label}
      sort=${sort}
      onSort=${onSort}
      see=${pages.see}
    />
    <${Others} number=${first.others} />
  `;
}
