// What the API server knows of a unit, its job and its pods: read with the viewer's own token.
import { session } from "./api.js";
import { clockTime, count, secondsBetween, span } from "./format.js";
import { html } from "./html.js";
import { describeCommand, eventsCommand, podsCommand } from "./kubectl.js";
import { InTheCluster, Manifest } from "./manifest.js";
import { OnDemand } from "./on_demand.js";
import { Badge, Empty } from "./parts.js";

const UNIT_KIND = { apiVersion: "scheduling.x-k8s.io/v1alpha1", kind: "QueueUnit" };

export function UnitObjects({ unit, pods, podCount, path, stateAt }) {
  const { namespace, name, job, uid } = unit;
  const names = pods.map((each) => each.name);
  return html`<${InTheCluster}>
    <${OnDemand}
      title=${`Pods (${podCount} now)`}
      path=${`${path}/pods`}
      show=${(answer) => html`<${PodsRead} answer=${answer} stateAt=${stateAt} />`}
      commands=${[["pods as kubectl", podsCommand(namespace, names)]]}
    >
      ${!session.value?.login && html`<${PodTable} pods=${pods} />`}
      ${pods.length > 0 && podCount > pods.length && html`<p class="hint">There are further pods.</p>`}
    <//>
    <${OnDemand}
      title="Events"
      path=${`${path}/events`}
      show=${(answer) => html`<${EventTable} answer=${answer} />`}
      commands=${[
        ["events of the unit as kubectl", eventsCommand(namespace, uid)],
        ...(names.length ? [["events of pods as kubectl", describeCommand(namespace, names)]] : []),
      ]}
    />
    <${Manifest}
      title="YAML of the unit"
      what="unit"
      path=${`${path}/manifests/unit`}
      object=${{ ...UNIT_KIND, namespace, name }}
    />
    ${job?.kind &&
    html`<${Manifest}
      title="YAML of its job"
      what="job"
      path=${`${path}/manifests/job`}
      object=${{ ...job, namespace }}
    />`}
  <//>`;
}

const TONES = { Running: "good", Succeeded: "good", Failed: "bad", Pending: "warn" };

function PodsRead({ answer: { pods, more, leftOut, problem }, stateAt }) {
  return html`
    ${(pods.length > 0 || !problem) && html`<${PodTable} pods=${pods} stateAt=${stateAt} />`}
    ${more && html`<p class="hint">There are further pods.</p>`}
    ${leftOut > 0 && html`<p class="hint">Not read: ${count(leftOut, "pod")} that the queue knows of.</p>`}
  `;
}

/** Pods; without a login their names and nodes alone are known. */
function PodTable({ pods, stateAt }) {
  if (!pods.length) return html`<${Empty}>It has no pods now.<//>`;
  const isRead = pods.some((each) => each.phase);
  const columns = isRead ? ["Pod", "Phase", "Reason", "Node", "Started", "Ran for"] : ["Pod", "Node"];
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label="Pods of the unit">
      <table class="cards">
        <thead>
          <tr>
            ${columns.map((word) => html`<th scope="col" key=${word}>${word}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${pods.map((each) => html`<${PodRow} key=${each.name} pod=${each} isRead=${isRead} stateAt=${stateAt} />`)}
        </tbody>
      </table>
    </div>
  `;
}

function PodRow({ pod, isRead, stateAt }) {
  const { phase, reason, message, restarts, started, ran, ended } = pod;
  const until = ended ?? stateAt;
  return html`<tr>
    <th scope="row">${pod.name}</th>
    ${isRead &&
    html`<td class="aside"><${Badge} tone=${TONES[phase]}>${phase}<//></td>
      <td class="text line">
        ${reason}${reason && message ? ": " : ""}${message}
        ${restarts > 0 && html` <span class="hint">${count(restarts, "restart")}</span>`}
      </td>`}
    <td data-label="node">${pod.node || "none yet"}</td>
    ${isRead &&
    html`<td data-label="started">${clockTime(started)}</td>
      <td data-label="ran for">${ran ? span(Math.max(0, secondsBetween(ran, until))) : ""}</td>`}
  </tr>`;
}

function EventTable({ answer: { events, more, podsLeftOut } }) {
  return html`
    ${events.length
      ? html`<div class="scroll" tabindex="0" role="group" aria-label="Events">
          <table class="cards">
            <thead>
              <tr>
                ${["Time", "Reason", "About", "Message"].map((word) => html`<th scope="col" key=${word}>${word}</th>`)}
              </tr>
            </thead>
            <tbody>
              ${events.map((each, index) => html`<${EventRow} key=${index} event=${each} />`)}
            </tbody>
          </table>
        </div>`
      : html`<${Empty}>There are no events. The API server keeps them for an hour, unless it is set otherwise.<//>`}
    ${more && html`<p class="hint">There are further events.</p>`}
    ${podsLeftOut > 0 && html`<p class="hint">Those of ${count(podsLeftOut, "further pod")} were not read.</p>`}
  `;
}

function EventRow({ event }) {
  const tone = event.type === "Warning" ? "warn" : "plain";
  return html`<tr>
    <th scope="row">${clockTime(event.time)}${event.count > 1 ? `, ${event.count} times` : ""}</th>
    <td class="aside"><${Badge} tone=${tone}>${event.reason}<//></td>
    <td class="line">${event.about}</td>
    <td class="text line">${event.message}</td>
  </tr>`;
}
