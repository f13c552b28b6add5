// The smallest changes that would start a unit: those that were found lately, or found when asked.
import { ask } from "./api.js";
import { clockTime, count } from "./format.js";
import { html, useState } from "./html.js";
import { patchCommand } from "./kubectl.js";
import { Badge, Empty, Problem, Snippet, UnitLink } from "./parts.js";

/** Only tried when the viewer asks: the server tries each on a copy. `known`: found before, or null. */
export function Changes({ path, known }) {
  const [{ found, error, isAsking }, setState] = useState({});
  async function find() {
    setState({ found, isAsking: true });
    try {
      const { changes, changesComplete } = await ask(`${path}/changes`);
      setState({ found: { changes: changes ?? [], complete: changesComplete !== false } });
    } catch (failure) {
      setState({ found, error: failure });
    }
  }
  const shown = found ?? known;
  const word = shown ? "Find them again" : "Find the smallest changes";
  return html`<section aria-labelledby="changes">
    <h2 id="changes">What would start it</h2>
    ${error && html`<${Problem} error=${error} />`}
    <div aria-live="polite">${shown && html`<${ChangeList} ...${shown} />`}</div>
    <p>
      <button type="button" onClick=${find} disabled=${isAsking}>
        ${isAsking ? "Trying changes…" : word}
      </button>
    </p>
  </section>`;
}

function ChangeList({ changes, complete, foundAt }) {
  const isFact = (each) => each.practical === false || each.kind === "wait";
  const facts = changes.filter(isFact);
  const made = changes.filter((each) => !isFact(each));
  return html`
    ${made.length > 0
      ? html`<ol class="changes">
          ${made.map((each, index) => html`<${Change} key=${index} change=${each} />`)}
        </ol>`
      : html`<${Empty}>No change was found that would start it now.<//>`}
    ${facts.map((each, index) => html`<p key=${index}>${each.description}</p>`)}
    ${!complete && html`<p class="hint">There was no time to try every kind of change.</p>`}
    ${foundAt && html`<p class="hint">Found at ${clockTime(foundAt)}; the cluster may have changed since.</p>`}
  `;
}

function Change({ change }) {
  const { alsoStarts, otherStarts, units, otherUnits } = change;
  const starts = alsoStarts.length + otherStarts;
  const ends = units.length + otherUnits;
  return html`<li>
    ${change.sufficient
      ? html`<${Badge} tone="good">enough<//>`
      : html`<${Badge} tone="warn">not enough alone<//>`}
    ${" "}${change.description}
    ${starts > 0 && html` ${count(starts, "unit")} would start before it.`}
    ${ends > 0 &&
    html` <span>${units.slice(0, 5).map((each) => html`<${UnitLink} key=${each} unit=${each} />${" "}`)}
        ${ends > 5 ? `and ${ends - 5} more` : ""}</span>`}
    ${change.patches.map(
      (patch, index) => html`<${Snippet} key=${index} text=${patchCommand(patch)} label="as kubectl" />`,
    )}
  </li>`;
}
