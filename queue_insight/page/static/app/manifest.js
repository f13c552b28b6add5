// Objects as the API server has them: read with the viewer's own token, shown as YAML.
import { session } from "./api.js";
import { html } from "./html.js";
import { yamlCommand } from "./kubectl.js";
import { OnDemand } from "./on_demand.js";
import { Snippet } from "./parts.js";
import { toYaml } from "./yaml.js";

/** Characters of a manifest that are shown: a browser takes seconds to lay out more. */
const MOST_YAML = 300_000;

/** The section of a view with the parts that the API server is asked for. */
export function InTheCluster({ children }) {
  return html`<section aria-labelledby="objects">
    <h2 id="objects">In the cluster</h2>
    <p class="hint">
      ${session.value?.login
        ? "Read from the API server with your own token and rights when you open a part. Nothing is kept."
        : "Without a login the page does not ask the API server: copy the commands."}
    </p>
    ${children}
  </section>`;
}

/** An object as YAML; `what` it is, and `object`: its apiVersion, kind, namespace and name. */
export function Manifest({ title, what, path, object }) {
  return html`<${OnDemand}
    title=${title}
    path=${path}
    show=${({ manifest }) => manifest && html`<${Yaml} label=${`YAML of the ${what}`} text=${toYaml(manifest)} />`}
    commands=${[[`${what} as kubectl`, yamlCommand(object.namespace, object)]]}
  />`;
}

/** An object that states the queue or quota `name`, or settings of it, as YAML. */
export function StatedIn({ of, name, object }) {
  return html`<${Manifest}
    title=${`YAML of its ${object.kind}`}
    what=${object.kind}
    path=${`/page/manifests/${of}/${encodeURIComponent(name)}`}
    object=${object}
  />`;
}

function Yaml({ label, text }) {
  if (text.length <= MOST_YAML) return html`<${Snippet} text=${text} label=${label} />`;
  return html`
    <p class="hint">It is long: this is its beginning. The command shows all of it.</p>
    <${Snippet} text=${text.slice(0, MOST_YAML)} label=${`the beginning of the ${label}`} />
  `;
}
