// The frame around all views, and which view a path has.
//
// A map of the modules:
//   main        the frame; router: addresses and links
//   api         questions to the server; live: news of what has changed
//   overview, queue, unit, quota, what_if, login: the views, one each
//   parts       small pieces of several views; table: the long list; quota_bars, chart,
//               forecast_chart: pictures
//   format, yaml, kubectl: values as text (pure); html: the templates
import { askSession, ask, session } from "./api.js";
import { clockTime } from "./format.js";
import { effect, html, render, useEffect, useRef, useState } from "./html.js";
import { liveness, startLive, stopLive } from "./live.js";
import { Login } from "./login.js";
import { Overview } from "./overview.js";
import { Problem } from "./parts.js";
import { Queue, Unqueued } from "./queue.js";
import { Quota } from "./quota.js";
import { Link, go, pathTo, place, segmentsOf, setQuery } from "./router.js";
import { Unit } from "./unit.js";
import { WhatIf } from "./what_if.js";

/** Return the view of a path and its title. */
function viewOf(path) {
  const segments = segmentsOf(path) ?? ["?"];
  const [view, first, second] = segments;
  if (segments.length === 0) return ["Overview", html`<${Overview} />`];
  if (view === "queues" && segments.length === 2) {
    return [`Queue ${first}`, html`<${Queue} key=${path} name=${first} />`];
  }
  if (view === "unqueued" && segments.length === 1) return ["Units in no queue", html`<${Unqueued} />`];
  if (view === "units" && segments.length === 3) {
    return [`${first}/${second}`, html`<${Unit} key=${path} namespace=${first} name=${second} />`];
  }
  if (view === "quotas" && segments.length === 2) {
    return [`Quota ${first}`, html`<${Quota} key=${path} name=${first} />`];
  }
  if (view === "what-if" && segments.length === 1) {
    return ["What if?", session.value?.whatIf === false ? html`<${NoWhatIf} />` : html`<${WhatIf} />`];
  }
  if (view === "login" && segments.length === 1) return ["Overview", html`<${LoggedIn} />`];
  return ["Not found", html`<${NotFound} />`];
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
      You may not ask what changes would do. It takes the right to create on the path
      ${" "}<code>/debug/what-if</code>, which the ClusterRole <code>koord-queue-debug-reader</code> has.
    </p>
  `;
}

function NotFound() {
  return html`
    <h1>Not found</h1>
    <p>There is no view at this address. <${Link} to="/">Go to the overview<//>.</p>
  `;
}

function Frame() {
  const [failure, setFailure] = useState(null);
  const begin = () => askSession().then(() => setFailure(null), setFailure);
  useEffect(() => {
    begin();
  }, []);
  const { path } = place.value;
  const known = session.value;
  const [title, view] = known === null ? ["Log in", html`<${Login} />`] : viewOf(path);
  useTitle(title, path);
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header class="top">
      <${Link} to="/" class="brand">Koord-Queue<//>
      ${known &&
      html`<nav aria-label="Main">
          <${NavLink} to=${pathTo()} here=${path === "/"}>Overview<//>
          ${known.whatIf && html`<${NavLink} to="/what-if" here=${path === "/what-if"}>What if?<//>`}
        </nav>
        <${Standing} />
        <${User} session=${known} />`}
    </header>
    <main id="content" tabindex="-1">
      ${failure && html`<${Problem} error=${failure} again=${begin} />`}
      ${known && html`<${PastMoment} path=${path} />`}
      ${known !== undefined && view}
    </main>
  `;
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

/** Whether what is shown follows the cluster. */
function Standing() {
  if (place.value.query.get("at")) return null;
  const isLive = liveness.value === "live";
  return html`<span class=${`standing ${liveness.value}`} role="status">
    ${isLive ? "Live" : "Waiting for news"}
  </span>`;
}

/** What says that an earlier moment is shown, and leads back. What-if questions are about now. */
function PastMoment({ path }) {
  const at = place.value.query.get("at");
  if (!at || !(path === "/" || /^\/(queues\/|units\/|quotas\/|unqueued$)/.test(path))) return null;
  return html`<p class="past" role="status">
    This is how it was at ${clockTime(at) || at}.${" "}
    <button type="button" onClick=${() => setQuery({ at: "" })}>Show how it is now</button>
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

// A stream that is refused may mean that the session has ended.
const lookAgain = () => askSession().catch(() => {});
effect(() => (session.value ? startLive(lookAgain) : stopLive()));

const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Frame} />`, root);
