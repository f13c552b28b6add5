// Small pieces that several views have.
import { UNREACHABLE } from "./api.js";
import { asSentence, count } from "./format.js";
import { html, useState } from "./html.js";
import { liveness } from "./live.js";
import { Link, pathTo, setQuery } from "./router.js";

// Statuses of answers that are the same the next time.
const FINAL = [403, 404, 422];

/** What went wrong, and what to do about it. */
export function Problem({ error, again }) {
  // The frame says it once for the whole page, and tries again by itself.
  if (UNREACHABLE.includes(error.status) && liveness.value === "gone") return null;
  const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
  return html`<div class="problem error" role="alert">
    <p><strong>${asSentence(error.message)}</strong>${wait}</p>
    ${error.status === 404 && html`<p>It may have been deleted, or its name is misspelled.</p><${WayBack} />`}
    ${again && !FINAL.includes(error.status) && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

/** A way on from an address where there is nothing. */
export function WayBack() {
  return html`<p><${Link} to=${pathTo()}>Go to the overview<//></p>`;
}

/** Where nothing is to be shown: why, and what to do. */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** While the first answer is on its way. */
export function Loading() {
  return html`<p class="loading" role="status">Loading…</p>`;
}

/**
 * What `useAnswer` returned: an error above the last answer, or that it is on its way.
 *
 * `show` makes the view of an answer.
 */
export function Answered({ asked, show }) {
  const { answer, error, again } = asked;
  return html`
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${answer ? show(answer) : !error && html`<${Loading} />`}
  `;
}

/** Buttons for the time that a view is about: `range` in the address, which the usual one is left out of. */
export function Ranges({ known, usual, range }) {
  return html`<div class="controls" role="group" aria-label="Range">
    ${Object.entries(known).map(
      ([each, words]) => html`<button
        key=${each}
        type="button"
        aria-pressed=${each === range ? "true" : "false"}
        onClick=${() => setQuery({ range: each === usual ? "" : each })}
      >
        ${words}
      </button>`,
    )}
  </div>`;
}

/** A word in a frame: "good", "warn", "bad" or "plain". */
export function Badge({ tone = "plain", children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}

/** A unit as a link to its view. */
export function UnitLink({ unit }) {
  const [namespace, name] = unit.split("/");
  return name ? html`<${Link} to=${pathTo("units", namespace, name)}>${unit}<//>` : unit;
}

/** How many units are not shown, and why. */
export function Others({ number }) {
  if (!number) return null;
  return html`<p class="others">
    ${count(number, "more unit")} in namespaces whose units you may not list.
  </p>`;
}

/** A button that copies a text, and says so. */
export function CopyButton({ text, children }) {
  const [said, setSaid] = useState("");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      setSaid("The browser does not allow it: select the text and copy it");
    }
  }
  return html`<span class="copy">
    <button type="button" onClick=${copy}>${children}</button>
    <span role="status">${said}</span>
  </span>`;
}

/** A text to copy, with its button. */
export function Snippet({ text, label }) {
  return html`<div class="snippet">
    <pre tabindex="0" aria-label=${label}>${text}</pre>
    <${CopyButton} text=${text}>Copy ${label}<//>
  </div>`;
}

/** Facts as pairs of a word and a value; pairs without a value are left out. */
export function Facts({ pairs }) {
  return html`<dl class="facts">
    ${pairs
      .filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([word, value]) => html`<div key=${word}><dt>${word}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** A link to the list of all jobs, filtered. */
export function JobsLink({ filter, children, ...others }) {
  const path = pathTo("jobs");
  const address = `${path}${path.includes("?") ? "&" : "?"}filter=${encodeURIComponent(filter)}`;
  return html`<${Link} to=${address} ...${others}>${children}<//>`;
}

/** How many units of a queue are admitted, as a link to them. */
export function AdmittedLink({ queue }) {
  const label = `${count(queue.admitted, "admitted unit")} of queue ${queue.name}`;
  return html`<${JobsLink} filter=${`queue=${queue.name} state:admitted`} aria-label=${label}>
    ${queue.admitted.toLocaleString("en-US")}
  <//>`;
}
