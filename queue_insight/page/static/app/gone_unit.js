// A unit that does not exist, or not any more: what the record knows of it, and ways back.
import { clockTime, secondsBetween, span } from "./format.js";
import { html } from "./html.js";
import { Badge, Facts } from "./parts.js";
import { Link, pathTo } from "./router.js";
import { Timeline } from "./unit_timeline.js";

const ENDS = { finished: "it finished", failed: "it failed", evicted: "it was evicted", deleted: "it was deleted" };

export function GoneUnit({ answer: { remembered, log }, at }) {
  const { seen, run } = remembered;
  const queue = run?.queue || log?.find((each) => each.queue)?.queue;
  return html`
    <p class="summary">
      <${Badge}>not there<//>${" "}
      ${at ? "The queue did not know this unit then." : "The queue has no such unit."}${" "}
      ${seen
        ? `It was seen last at ${clockTime(seen)}.`
        : "Nothing is recorded of it: it never existed, it was deleted long ago, or no record is kept."}
    </p>
    ${run && html`<${Run} run=${run} />`}
    <p>
      ${queue && html`<${Link} to=${pathTo("queues", queue)}>Go to queue ${queue}<//> or${" "}`}
      <${Link} to=${pathTo()}>${queue ? "to" : "Go to"} the overview<//>.
    </p>
    ${seen && log?.length > 0 && html`<${Timeline} created=${run?.created ?? null} until=${seen} log=${log} />`}
  `;
}

function Run({ run }) {
  const ran = run.started ? span(secondsBetween(run.started, run.ended)) : "";
  return html`<${Facts}
    pairs=${[
      ["Queue", run.queue],
      ["Quota", run.quota],
      ["Kind of job", run.kind],
      ["Created", clockTime(run.created)],
      ["Pods ran from", run.started ? clockTime(run.started) : "never"],
      ["Ended", `${clockTime(run.ended)}: ${ENDS[run.endedBy] ?? run.endedBy}`],
      ["Run time", ran],
    ]}
  />`;
}
