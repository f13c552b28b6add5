// The frame around all views, and which view a path has.
//
// A map of the modules:
//   main        the frame; router: addresses and links
//   api         questions to the server; live: news of what has changed; keys: of the keyboard
//   overview, jobs, queue, unit, quota, over_time, report, what_if, login: the views, one each
//   gone_unit, unit_changes, unit_objects, unit_timeline: parts of the view of a unit
//   on_demand   parts that are asked for when they are opened; manifest: those that are YAML
//   parts       small pieces of several views; table: the long list; quota_bars, chart,
//               forecast_chart: pictures
//   format, yaml, kubectl: values as text (pure); html: the templates
import { UNREACHABLE, ask, askSession, session } from "./api.js";
import { clockTime } from "./format.js";
import { effect, html, render, useEffect, useRef, useState } from "./html.js";
import { Jobs } from "./jobs.js";
import { Help, HelpButton } from "./keys.js";
import { RETRY_MILLISECONDS, lastHeard, liveness, startLive, stopLive } from "./live.js";
import { Login } from "./login.js";
import { OverTime } from "./over_time.js";
import { Overview } from "./overview.js";
import { Problem, WayBack } from "./parts.js";
import { Queue, Unqueued } from "./queue.js";
import { Quota } from "./quota.js";
import { Report } from "./report.js";
import { Link, go, pathTo, place, segmentsOf, setQuery } from "./router.js";
import { Unit } from "./unit.js";
import { WhatIf } from "./what_if.js";

/**
 * The views: a pattern of segments, where ":" stands for any; the title, and the view, of what stands
 * there. `past` is what is said of an earlier time in the address: it is shown, unless it says
 * otherwise.
 */
const VIEWS = [
  { pattern: [], title: () => "Overview", view: () => html`<${Overview} />` },
  { pattern: ["jobs"], title: () => "Jobs", view: () => html`<${Jobs} />` },
  {
    pattern: ["queues", ":"],
    title: (name) => `Queue ${name}`,
    view: (name) => html`<${Queue} key=${name} name=${name} />`,
  },
  { pattern: ["unqueued"], title: () => "Units in no queue", view: () => html`<${Unqueued} />` },
  {
    pattern: ["units", ":", ":"],
    title: (namespace, name) => `${namespace}/${name}`,
    view: (namespace, name) =>
      html`<${Unit} key=${`${namespace}/${name}`} namespace=${namespace} name=${name} />`,
  },
  {
    pattern: ["quotas", ":"],
    title: (name) => `Quota ${name}`,
    view: (name) => html`<${Quota} key=${name} name=${name} />`,
  },
  { pattern: ["over-time"], title: () => "Over time", view: () => html`<${OverTime} />`, past: "refused" },
  {
    pattern: ["queues", ":", "over-time"],
    title: (name) => `Queue ${name} over time`,
    view: (name) => html`<${OverTime} key=${`queue ${name}`} queue=${name} />`,
    past: "refused",
  },
  {
    pattern: ["quotas", ":", "over-time"],
    title: (name) => `Quota ${name} over time`,
    view: (name) => html`<${OverTime} key=${`quota ${name}`} quota=${name} />`,
    past: "refused",
  },
  { pattern: ["report"], title: () => "Report", view: () => html`<${Report} />`, past: "refused" },
  {
    pattern: ["what-if"],
    title: () => "What if?",
    view: () => (session.value?.whatIf === false ? html`<${NoWhatIf} />` : html`<${WhatIf} />`),
    past: "refused",
  },
  { pattern: ["login"], title: () => "Overview", view: () => html`<${LoggedIn} />`, past: "none" },
];
const LOG_IN = { title: () => "Log in", view: () => html`<${Login} />`, past: "none" };
const NOWHERE = { title: () => "Not found", view: () => html`<${NotFound} />`, past: "none" };

/** Return {title, view, past} of a path; who has to log in is shown that alone. */
function viewOf(path) {
  const segments = segmentsOf(path);
  const fits = ({ pattern }) =>
    pattern.length === segments?.length && pattern.every((each, index) => each === ":" || each === segments[index]);
  const found = session.value === null ? LOG_IN : (VIEWS.find(fits) ?? NOWHERE);
  const named = segments?.filter((_, index) => found.pattern?.[index] === ":") ?? [];
  return { title: found.title(...named), view: found.view(...named), past: found.past ?? "shown" };
}

/** What is at /login for those who are logged in, or need not be. */
function LoggedIn() {
  useEffect(() => go("/", { replace: true }), []);
  return null;
}

function NoWhatIf() {
  return html`
    <h1>What if?</h1>
    <p>
      You may not ask what changes would do. It needs the right to create on the path
      ${" "}<code>/debug/what-if</code>, which the ClusterRole <code>koord-queue-debug-reader</code> has.
    </p>
  `;
}

function NotFound() {
  return html`
    <h1>Not found</h1>
    <p>There is no view at this address.</p>
    <${WayBack} />
  `;
}

function Frame() {
  const [failure, setFailure] = useState(null);
  const begin = () => askSession().then(() => setFailure(null), setFailure);
  useEffect(() => {
    begin();
  }, []);
  useEffect(() => {
    // Nothing is followed yet that would notice when the server is back.
    const timer = failure && setInterval(begin, RETRY_MILLISECONDS);
    return () => clearInterval(timer);
  }, [failure]);
  const { path } = place.value;
  const known = session.value;
  const { title, view, past } = viewOf(path);
  const isGone = known && liveness.value === "gone";
  useTitle(title, path);
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header class="top">
      <${Link} to="/" class="brand">Koord-Queue<//>
      ${known &&
      html`<nav aria-label="Main">
          <${NavLink} to=${pathTo()} here=${path === "/"}>Overview<//>
          <${NavLink} to=${pathTo("jobs")} here=${path === "/jobs"}>Jobs<//>
          <${NavLink} to="/over-time" here=${path.endsWith("/over-time")}>Over time<//>
          <${NavLink} to="/report" here=${path === "/report"}>Report<//>
          ${known.whatIf && html`<${NavLink} to="/what-if" here=${path === "/what-if"}>What if?<//>`}
        </nav>
        <${Standing} />
        <${HelpButton} />
        <${User} session=${known} />`}
    </header>
    ${isGone && html`<${Gone} />`}
    <main id="content" class=${isGone ? "gone" : undefined} tabindex="-1">
      ${failure && html`<${Problem} error=${failure} again=${begin} />`}
      ${known && html`<${PastMoment} past=${past} />`}
      ${known !== undefined && view}
    </main>
    <${Help} />
  `;
}

function Gone() {
  return html`<p class="banner" role="alert">
    <strong>The server has not been reachable since ${clockTime(lastHeard.value.toISOString())}.</strong>${" "}
    What you see is from before then. The page keeps trying, and goes on by itself. If you use a
    port-forward, is it still open?
  </p>`;
}

/** Set the window's title, and after a change of view move the focus to it, for screen readers. */
function useTitle(title, path) {
  const last = useRef(path);
  useEffect(() => {
    document.title = `${title} · Koord-Queue`;
    if (last.current !== path) document.getElementById("content").focus({ preventScroll: true });
    last.current = path;
  }, [title, path]);
}

function NavLink({ to, here, children }) {
  return html`<${Link} to=${to} aria-current=${here ? "page" : undefined}>${children}<//>`;
}

const STANDINGS = { live: "Live", waiting: "Connecting…", gone: "Not connected", refused: "Not live" };

/** Whether what is shown follows the cluster. */
function Standing() {
  if (place.value.query.get("at")) return null;
  return html`<span class=${`standing ${liveness.value}`} role="status">${STANDINGS[liveness.value]}</span>`;
}

/** What says that an earlier moment is shown, or cannot be, and leads back. */
function PastMoment({ past }) {
  const at = place.value.query.get("at");
  if (!at || past === "none") return null;
  const time = clockTime(at) || at;
  return html`<p class="past" role="status">
    ${past === "shown" ? `This is how it was at ${time}.` : `This view is about now: it cannot be shown for ${time}.`}
    ${" "}<button type="button" onClick=${() => setQuery({ at: "" })}>Show how it is now</button>
  </p>`;
}

function User({ session: { user, login } }) {
  async function logOut() {
    try {
      await ask("/page/session", { method: "DELETE" });
    } finally {
      session.value = null;
      go("/login");
    }
  }
  if (!login) return null;
  return html`<span class="user">
    <span class="name" title=${user}>${user}</span>
    <button type="button" onClick=${logOut}>Log out</button>
  </span>`;
}

/**
 * Look why a stream was refused: the session may have ended. Returns whether the server is there; a
 * proxy may answer for one that is not.
 */
async function lookAgain() {
  try {
    await askSession();
  } catch (error) {
    return !UNREACHABLE.includes(error.status);
  }
  return true;
}

effect(() => (session.value ? startLive(lookAgain) : stopLive()));

const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Frame} />`, root);
