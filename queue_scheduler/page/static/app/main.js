// The frame around all views, and which view a path has.
import { askSession, ask, session } from "./api.js";
import { clockTime } from "./format.js";
import { html, render, useEffect, useRef, useState } from "./html.js";
import { liveness, startLive, stopLive } from "./live.js";
import { Login } from "./login.js";
import { Overview } from "./overview.js";
import { Problem } from "./parts.js";
import { Queue } from "./queue.js";
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
  if (view === "units" && segments.length === 3) {
    return [`${first}/${second}`, html`<${Unit} key=${path} namespace=${first} name=${second} />`];
  }
  if (view === "quotas" && segments.length === 2) {
    return [`Quota ${first}`, html`<${Quota} key=${path} name=${first} />`];
  }
  if (view === "what-if" && segments.length === 1) return ["What if?", html`<${WhatIf} />`];
  if (view === "login" && segments.length === 1) return ["Overview", html`<${LoggedIn} />`];
  return ["Not found", html`<${NotFound} />`];
}

/** What is at /login for those who are logged in, or need not be. */
function LoggedIn() {
  useEffect(() => go("/", { replace: true }), []);
  return null;
}

function NotFound() {
  return html`
    <h1>Not found</h1>
    <p>There is no view at this address. <${Link} to="/">Go to the overview<//>.</p>
  `;
}

function Frame() {
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    askSession().then(startLive, setFailure);
  }, []);
  const { path } = place.value;
  const known = session.value;
  const [title, view] = known === null ? ["Log in", html`<${Login} />`] : viewOf(path);
  useTitle(title, path);
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header class="top">
      <${Link} to=${pathTo()} class="brand">Koord-Queue<//>
      ${known &&
      html`<nav aria-label="Main">
          <${NavLink} to=${pathTo()} path=${path}>Overview<//>
          <${NavLink} to="/what-if" path=${path}>What if?<//>
        </nav>
        <${Standing} />
        <${User} session=${known} />`}
    </header>
    <main id="content" tabindex="-1">
      ${failure && html`<${Problem} error=${failure} />`}
      <${PastMoment} />
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

function NavLink({ to, path, children }) {
  const isHere = path === to.split("?")[0];
  return html`<${Link} to=${to} aria-current=${isHere ? "page" : undefined}>${children}<//>`;
}

/** Whether what is shown follows the cluster. */
function Standing() {
  if (place.value.query.get("at")) return null;
  const isLive = liveness.value === "live";
  return html`<span class=${`standing ${liveness.value}`} role="status">
    ${isLive ? "Live" : "Waiting for news"}
  </span>`;
}

/** What says that an earlier moment is shown, and leads back. */
function PastMoment() {
  const at = place.value.query.get("at");
  if (!at) return null;
  return html`<p class="past" role="status">
    This is how it was at ${clockTime(at) || at}.${" "}
    <button type="button" onClick=${() => setQuery({ at: "" })}>Show how it is now</button>
  </p>`;
}

function User({ session: { user, login } }) {
  async function logOut() {
    stopLive();
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

const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Frame} />`, root);
