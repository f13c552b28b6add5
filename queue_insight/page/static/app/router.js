// Views by path, with the History API. What a view shows is all in its address, nothing secret.
import { html, signal } from "./html.js";

export const place = signal(readPlace());

function readPlace() {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

window.addEventListener("popstate", () => {
  place.value = readPlace();
});

/** Go to an address of this page. */
export function go(address, { replace = false } = {}) {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  place.value = readPlace();
  if (!replace) window.scrollTo(0, 0);
}

/** Return a parameter of the address if it is one of the keys of `known`, else the usual one. */
export function choice(name, known, usual) {
  const wanted = place.value.query.get(name);
  return Object.hasOwn(known, wanted ?? "") ? wanted : usual;
}

/** Change parameters of the address in place; an empty value takes one away. */
export function setQuery(changes) {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  go(place.value.path + withQuestionMark(query), { replace: true });
}

function withQuestionMark(query) {
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Return a path of segments from the cluster, each encoded; `at` is carried on. */
export function pathTo(...segments) {
  const at = place.value.query.get("at");
  return `/${segments.map(encodeURIComponent).join("/")}${at ? `?at=${encodeURIComponent(at)}` : ""}`;
}

/** A link within the page. A new tab, a copied address and the keyboard work as for any link. */
export function Link({ to, children, ...others }) {
  function follow(event) {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  }
  return html`<a href=${to} onClick=${follow} ...${others}>${children}</a>`;
}

/** Return the address of the form of what-if questions, with what is known of the question. */
export function whatIfPath({ quota, resource, unit }) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ quota, resource, unit })) if (value) query.set(name, value);
  return `/what-if${withQuestionMark(query)}`;
}

/** Return the segments of a path, decoded; null if it cannot be, or one of them is empty. */
export function segmentsOf(path) {
  if (path === "/") return [];
  try {
    const segments = path.split("/").slice(1).map(decodeURIComponent);
    return segments.includes("") ? null : segments;
  } catch {
    return null;
  }
}
