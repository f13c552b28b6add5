// Keys that save a way with the mouse, and the help that lists them.
//
// None of them does anything while a viewer types in a field, or together with Ctrl, Alt or Meta:
// those belong to the browser and to assistive programs. Single keys can be turned off, since speech
// input and some screen readers send them unintended (WCAG 2.1.4).
import { createRef, html, signal } from "./html.js";

const HELP = [
  ["/", "Go to the filter"],
  ["j", "Go to the next row"],
  ["k", "Go to the row before"],
  ["Enter", "Open the row"],
  ["Esc", "Leave the filter, the rows, or this help"],
  ["?", "Show this help"],
];
const KEPT = "koord-queue-keys";
const OFF = "off";

// The dialog itself knows whether it is open. A copy of that, set by its event "close", would still say
// so for a moment after Esc, and swallow the next key.
const help = createRef();
const areKeysOn = signal(readKept() !== OFF);

function readKept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    // A browser that keeps nothing for pages.
    return null;
  }
}

function turnKeys(isOn) {
  areKeysOn.value = isOn;
  try {
    if (isOn) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, OFF);
  } catch {
    // It holds until the page is left.
  }
}

const ACTIONS = {
  "/": focusFilter,
  j: () => focusRow(1),
  k: () => focusRow(-1),
  "?": showHelp,
};

window.addEventListener("keydown", onKey);

function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || help.current?.open) return;
  if (key === "Escape") {
    if (leave(target)) event.preventDefault();
    return;
  }
  if (!areKeysOn.value || isTyping(target) || !Object.hasOwn(ACTIONS, key)) return;
  ACTIONS[key]();
  event.preventDefault();
}

function showHelp() {
  help.current?.showModal();
}

function isTyping(element) {
  return element.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(element.tagName);
}

function focusFilter() {
  const field = document.querySelector("main input[type=search]");
  field?.focus();
  field?.select();
}

/** Leave the filter or a row, and say whether it was one; the next row is again the first that is seen. */
function leave(element) {
  if (!element.closest("main input[type=search], main tbody tr")) return false;
  document.getElementById("content").focus({ preventScroll: true });
  return true;
}

/** Move the focus to the link of the next row (1) or of the one before (-1), over all tables. */
function focusRow(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? firstSeen(rows) : rows[at + step];
  const link = next?.querySelector("a");
  if (!link) return;
  // The browser would show a row of a long list below its heading, which stays in place.
  link.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

/** Return the first row that is not above what is seen of its list. */
function firstSeen(rows) {
  return rows.find((row) => {
    const list = row.closest(".virtual");
    const top = list ? list.getBoundingClientRect().top + list.querySelector("thead").offsetHeight : 0;
    return row.getBoundingClientRect().top >= top - 1;
  });
}

/** The button that shows the help, for who does not know of the key. */
export function HelpButton() {
  return html`<button type="button" class="keys" aria-haspopup="dialog" onClick=${showHelp}>Keys</button>`;
}

/** The help, above the page while it is wanted. The browser keeps the focus in it. */
export function Help() {
  return html`<dialog ref=${help} aria-labelledby="keys">
    <h2 id="keys">Keys</h2>
    <dl>
      ${HELP.map(([key, words]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}
    </dl>
    <p>
      <label>
        <input type="checkbox" checked=${areKeysOn.value} onChange=${(event) => turnKeys(event.target.checked)} />
        ${" "}Use these keys
      </label>
    </p>
    <button type="button" onClick=${() => help.current.close()}>Close</button>
  </dialog>`;
}
