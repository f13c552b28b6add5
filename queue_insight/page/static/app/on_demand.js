// Parts of a view that the server asks the API server for, when the viewer opens them.
import { ask, session } from "./api.js";
import { html, useState } from "./html.js";
import { Loading, Problem, Snippet } from "./parts.js";

/**
 * A part that is asked for once it is opened, and again by its button.
 *
 * `show` makes the view of an answer. `commands` show the same in a terminal, as [label, command],
 * the command "" if there is none: they are all there is where nobody has logged in, since nothing
 * is asked without a token.
 */
export function OnDemand({ title, path, show, commands, children }) {
  const [{ answer, error, isAsking }, setState] = useState({});
  const mayAsk = session.value?.login === true;
  async function read() {
    setState({ answer, isAsking: true });
    try {
      setState({ answer: await ask(path) });
    } catch (failure) {
      setState({ answer, error: failure });
    }
  }
  function toggle(event) {
    if (event.currentTarget.open && mayAsk && !answer && !isAsking) read();
  }
  return html`<details class="on-demand" onToggle=${toggle}>
    <summary>${title}</summary>
    ${error && html`<${Problem} error=${error} />`}
    <div aria-live="polite">
      ${answer?.problem && html`<p class="problem">${answer.problem}</p>`}
      ${answer ? show(answer) : (children ?? null)}
      ${isAsking && !answer && html`<${Loading} />`}
    </div>
    ${mayAsk &&
    html`<p><button type="button" onClick=${read} disabled=${isAsking}>${isAsking ? "Reading…" : "Read again"}</button></p>`}
    ${commands.map(([label, text]) => text && html`<${Snippet} key=${label} text=${text} label=${label} />`)}
  </details>`;
}
