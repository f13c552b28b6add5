// All jobs: those that wait, that run and that have ended, filtered and sorted by the server.
import { clockTime, shortAmounts, showAmounts, span } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { Badge, Empty, JobsLink, Loading, Others, Problem, UnitLink } from "./parts.js";
import { Link, pathTo, place, setQuery } from "./router.js";
import { VirtualTable, usePages } from "./table.js";

const TYPING_MILLISECONDS = 300;
const NEWEST_FIRST = "-created";

// What the list of states offers, and the words of the filter.
const STATES = [
  ["", "any"],
  ["state:pending", "pending: on hold, waiting"],
  ["state:admitted", "admitted: reserved, starting, running"],
  ["state:on-hold", "on hold"],
  ["state:waiting", "waiting"],
  ["state:reserved", "reserved"],
  ["state:starting", "starting"],
  ["state:running", "running"],
  ["state:finished", "finished"],
  ["result:failed", "finished, failed"],
];

const TONES = { running: "good", "on hold": "warn" };

/** Return a filter with another word in place of those of the same field; "" only takes them away. */
export function withWord(filter, fields, word) {
  const kept = filter.split(/\s+/).filter((each) => each && !fields.includes(each.split(/[:=]/)[0]));
  return [...kept, word].filter(Boolean).join(" ");
}

function stateOf(job) {
  return job.result && job.result !== "succeeded" ? `${job.state}, ${job.result}` : job.state;
}

function State({ job }) {
  return html`<${Badge} tone=${job.result === "failed" ? "bad" : TONES[job.state]}>${stateOf(job)}<//>`;
}

function OfField({ view, name }) {
  return name && html`<${Link} to=${pathTo(view, name)}>${name}<//>`;
}

const OTHER_DAY = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

/** Return a time in few characters: of another day without seconds. */
function shortTime(text) {
  if (!text) return "";
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? clockTime(text) : date.toLocaleString("en-US", OTHER_DAY);
}

const NAME = {
  key: "unit",
  title: "Unit",
  sort: "name",
  cell: (job) => html`<${UnitLink} unit=${`${job.namespace}/${job.name}`} />`,
  hint: (job) => `${job.namespace}/${job.name}, created ${clockTime(job.created)}`,
};
const STATE = {
  key: "state",
  title: "State",
  sort: "state",
  cell: (job) => html`<${State} job=${job} />`,
  hint: (job) => (job.phase ? `${stateOf(job)}; phase ${job.phase}` : stateOf(job)),
};
const WAITED = { key: "waited", title: "Waited", sort: "waited", cell: (job) => span(job.waitedSeconds) };
const RAN = { key: "ran", title: "Ran", sort: "ran", cell: (job) => span(job.ranSeconds) };
const LIKELY = {
  key: "start",
  title: "Likely start, end",
  cell: likely,
  hint: (job) => clockTime(job.starts ?? job.ends) || job.noStart,
};

function likely(job) {
  if (job.starts) return `start ${shortTime(job.starts)}`;
  return job.ends ? `end ${shortTime(job.ends)}` : job.noStart;
}

/** Return the columns; the style sheet has which a narrow window shows. */
const columnsOf = (filter) => [
  STATE,
  NAME,
  {
    key: "reason",
    title: "Reason",
    sort: "reason",
    cell: (job) =>
      job.reason &&
      html`<${JobsLink} filter=${withWord(filter, ["reason"], `reason=${job.reason}`)} title="Only jobs with this reason">
        ${job.reason}
      <//>`,
    hint: (job) => job.reason,
  },
  { key: "queue", title: "Queue", sort: "queue", cell: (job) => html`<${OfField} view="queues" name=${job.queue} />` },
  { key: "quota", title: "Quota", sort: "quota", cell: (job) => html`<${OfField} view="quotas" name=${job.quota} />` },
  {
    key: "user",
    title: "User",
    sort: "user",
    cell: (job) =>
      job.user &&
      html`<${JobsLink} filter=${withWord(filter, ["user"], `user=${job.user}`)} title=${`Only jobs of ${job.user}`}>
        ${job.user}
      <//>`,
  },
  { key: "kind", title: "Kind", sort: "kind", cell: (job) => job.kind, hint: (job) => job.kind },
  {
    key: "requests",
    title: "Requests",
    cell: (job) => shortAmounts(job.requests),
    hint: (job) => showAmounts(job.requests),
  },
  WAITED,
  {
    key: "started",
    title: "Started",
    sort: "started",
    cell: (job) => shortTime(job.started),
    hint: (job) => clockTime(job.started),
  },
  RAN,
  LIKELY,
];

export function Jobs() {
  const { query } = place.value;
  const kept = new URLSearchParams();
  for (const field of ["filter", "sort", "at"]) if (query.get(field)) kept.set(field, query.get(field));
  const { first, units, error, again, see } = usePages(
    `/page/jobs?${kept}`,
    (offset, limit) => `/page/jobs?${new URLSearchParams([...kept, ["offset", offset], ["limit", limit]])}`,
    (latest) => !query.get("at") && (latest.units.length > 0 || latest.queues.length > 0),
  );
  return html`
    <h1>Jobs</h1>
    <${Controls} filter=${query.get("filter") ?? ""} csv=${`/page/jobs.csv?${kept}`} />
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${first
      ? html`<${List} ...${{ first, units, see, query }} />`
      : !error && html`<${Loading} />`}
  `;
}

function nothingOf({ others }) {
  if (others) return "There are no jobs in the namespaces whose units you may list.";
  return "There are no jobs. One appears here when it is created with a queue or a quota.";
}

function List({ first, units, see, query }) {
  const filter = query.get("filter") ?? "";
  const sort = query.get("sort") ?? NEWEST_FIRST;
  if (first.total === 0) {
    return html`
      <${Empty}>${filter ? "No job matches the filter." : nothingOf(first)}<//>
      <${Others} number=${first.others} />
    `;
  }
  return html`
    <p class="hint" role="status">
      ${first.total.toLocaleString("en-US")} ${first.total === 1 ? "job" : "jobs"}${sort === NEWEST_FIRST && ", the newest first"}
    </p>
    <div class="jobs">
      <${VirtualTable}
        columns=${columnsOf(filter)}
        total=${first.total}
        rowAt=${(index) => units.get(index)}
        label="Jobs"
        sort=${sort}
        onSort=${(wanted) => setQuery({ sort: wanted === NEWEST_FIRST ? "" : wanted })}
        see=${see}
      />
    </div>
    <${Others} number=${first.others} />
    <p class="hint">Jobs whose units are gone are shown if they have ended since ${clockTime(first.endedSince)}.</p>
  `;
}

function Controls({ filter, csv }) {
  const [typed, setTyped] = useState(filter);
  const sent = useRef(filter);
  useEffect(() => {
    if (typed.trim() === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = typed.trim();
      setQuery({ filter: sent.current });
    }, TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    // Changed by a link, by the list of states, or by the browser's way back.
    if (filter === sent.current) return;
    sent.current = filter;
    setTyped(filter);
  }, [filter]);
  const words = filter.toLowerCase().split(/\s+/);
  const chosen = STATES.find(([word]) => word && words.includes(word))?.[0] ?? "";
  return html`<form class="controls" role="search" onSubmit=${(event) => event.preventDefault()}>
    <label class="field">
      Filter by namespace, name, job or user
      <input
        type="search"
        value=${typed}
        onInput=${(event) => setTyped(event.target.value)}
        aria-describedby="filter-hint"
      />
    </label>
    <label class="field">
      State
      <select
        value=${chosen}
        onChange=${(event) => setQuery({ filter: withWord(filter, ["state", "result"], event.target.value) })}
      >
        ${STATES.map(([word, text]) => html`<option key=${word} value=${word}>${text}</option>`)}
      </select>
    </label>
    <a href=${csv} download>Download as CSV</a>
    <p class="hint" id="filter-hint">
      All words must fit. <code>user:ann</code> looks in one field, as do <code>queue</code>, <code>quota</code>,${" "}
      <code>kind</code>, <code>reason</code> and <code>namespace</code>; <code>user=ann</code> is that user alone.
    </p>
  </form>`;
}
