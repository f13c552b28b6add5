// One queue: its line, filtered and sorted by the server.
import { clockTime, perHour, secondsBetween, showAmounts, span } from "./format.js";
import { html, useEffect, useState } from "./html.js";
import { Badge, Empty, Facts, Loading, Others, Problem } from "./parts.js";
import { Link, pathTo, place, setQuery } from "./router.js";
import { VirtualTable, usePages } from "./table.js";

const TYPING_MILLISECONDS = 300;

/** Return the columns; waits are as of the time of the answer, which may be an earlier one. */
const columnsAt = (stateAt) => [
  { key: "position", title: "Position", sort: "position", cell: (unit) => unit.position || "held" },
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
  { key: "reason", title: "Why it waits", cell: reasonOf, hint: reasonOf },
  {
    key: "start",
    title: "Likely start",
    cell: (unit) => clockTime(unit.starts),
    hint: (unit) => (unit.starts ? "as likely earlier as later" : undefined),
  },
];

function reasonOf(unit) {
  return unit.refusal ? unit.refusal.message : "It starts when it is its turn.";
}

export function Queue({ name }) {
  const { query } = place.value;
  const kept = new URLSearchParams();
  for (const field of ["filter", "sort", "at"]) if (query.get(field)) kept.set(field, query.get(field));
  const path = `/page/queues/${encodeURIComponent(name)}`;
  const pages = usePages(
    `${path}?${kept}`,
    (offset, limit) => `${path}?${new URLSearchParams([...kept, ["offset", offset], ["limit", limit]])}`,
    (latest) => !query.get("at") && latest.queues.includes(name),
  );
  const { first, error, again } = pages;
  return html`
    <h1>Queue ${name}</h1>
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${first && html`<${Head} queue=${first.queue} />`}
    <${Controls} query=${query} csv=${`${path}.csv?${kept}`} />
    ${first
      ? html`<${Line} name=${name} pages=${pages} sort=${query.get("sort") ?? "position"} isFiltered=${kept.has("filter")} />`
      : !error && html`<${Loading} />`}
  `;
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
        ["Admitted", queue.admitted.toLocaleString("en-US")],
        ["Admitted per hour", perHour(queue.admissionsPerHour)],
        ["Oldest wait", span(queue.oldestSeconds)],
        ["Backfill", queue.backfill ? "yes" : ""],
        ["Highest priority", queue.maxPriority],
        ["Quotas", html`<${Quotas} names=${queue.quotas} />`],
      ]}
    />
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
    <a href=${csv} download>Download as CSV</a>
    <p class="hint" id="filter-hint">All words must fit; <code>quota:vision</code> looks in one field.</p>
  </form>`;
}

function Line({ name, pages, sort, isFiltered }) {
  const { first, units } = pages;
  if (first.total === 0) {
    return isFiltered
      ? html`<${Empty}>No unit matches the filter.<//>`
      : html`<${Empty}>
          Nothing waits in this queue. Units appear here when a job that names it, or a quota of it,
          is created.
        <//>`;
  }
  return html`
    <p class="hint" role="status">${first.total.toLocaleString("en-US")} ${first.total === 1 ? "unit" : "units"}</p>
    <${VirtualTable}
      columns=${columnsAt(first.stateAt)}
      total=${first.total}
      rowAt=${(index) => units.get(index)}
      label=${`Units of queue ${name}`}
      sort=${sort}
      onSort=${(wanted) => setQuery({ sort: wanted === "position" ? "" : wanted })}
      see=${pages.see}
    />
    <${Others} number=${first.others} />
  `;
}
