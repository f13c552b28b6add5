// What edits of quotas, policies, queues and nodes would change. Nothing is applied: the page writes YAML and
// commands to copy.
import { ask, useAnswer } from "./api.js";
import { asSentence, count, showAmount, span } from "./format.js";
import { html, useId, useState } from "./html.js";
import { patchCommand } from "./kubectl.js";
import { Empty, Problem, Snippet, UnitLink } from "./parts.js";
import { place } from "./router.js";
import { toYaml } from "./yaml.js";

const STOP_POLICIES = ["None", "Hold", "HoldAndDrain"];
const HORIZONS = [["", "At once only"], ["3600", "One hour"], ["28800", "Eight hours"], ["86400", "One day"], ["604800", "One week"]];
const API_VERSIONS = { ElasticQuota: "scheduling.sigs.k8s.io/v1alpha1", Queue: "scheduling.x-k8s.io/v1alpha1", QuotaPolicy: "scheduling.x-k8s.io/v1alpha1", Node: "v1" };

/** Return the edit of a row of the form, as POST /debug/what-if takes it. */
export function editOf(row, names) {
  const { kind, name } = row;
  if (kind === "Node") return { kind, name, copies: Number(row.copies) };
  const namespace = namespaceOf(row, names);
  if (kind === "QuotaPolicy") return { kind, name, namespace, operations: operationsOf(row, names) };
  const patch =
    kind === "Queue"
      ? { metadata: { annotations: { "koord-queue/stop-policy": row.stopPolicy } } }
      : { spec: { [row.bound]: { [row.resource]: row.amount } } };
  return namespace ? { kind, name, namespace, patch } : { kind, name, patch };
}

/** Return the JSON patch of one value of a policy; its test fails if the list was edited meanwhile. */
function operationsOf(row, names) {
  const { path, value } = valueOf(row, names) ?? { path: row.path };
  const isCount = /\/(running|pending)$/.test(path);
  const test = value === undefined ? [] : [{ op: "test", path, value }];
  return [...test, { op: "replace", path, value: isCount ? Number(row.amount) : row.amount }];
}

/** Return the value of a policy that a row means: the chosen one, or the first. */
function valueOf(row, names) {
  const values = meantBy(row, names)[0]?.values ?? [];
  return values.find(({ path }) => path === row.path) ?? values[0];
}

const NO_NAMES = { queues: [], quotas: [], policies: [], nodes: [], complete: false };

/** Return the objects of a kind that can be edited, each {name, namespace}. */
function knownOf(kind, names) {
  if (kind === "Node") return names.nodes.map((name) => ({ name }));
  if (kind === "QuotaPolicy") return names.policies;
  return kind === "Queue" ? names.queues : names.quotas.filter(({ editable }) => editable);
}

/** Return the known objects that a row may mean. */
function meantBy({ kind, name, namespace }, names) {
  return knownOf(kind, names).filter((each) => each.name === name && (!namespace || each.namespace === namespace));
}

/** Return the namespace of the object: the one that was typed, or the only one there is. */
function namespaceOf(row, names) {
  const meant = meantBy(row, names);
  return row.namespace || (meant.length === 1 ? meant[0].namespace : "");
}

/** Return the names of a quota and of those above it, from the lowest on. */
function chainOf(name, quotas) {
  const chain = [];
  for (let next = name; next && !chain.includes(next); ) {
    const quota = quotas.find((each) => each.name === next);
    if (!quota) break;
    chain.push(next);
    next = quota.parent;
  }
  return chain;
}

function newRow(query) {
  return {
    kind: "ElasticQuota",
    name: query.get("quota") ?? "",
    namespace: "",
    bound: "max",
    resource: query.get("resource") ?? "cpu",
    amount: "",
    path: "",
    stopPolicy: "Hold",
    copies: "1",
    // Where the form was opened: the quotas from this one up are offered.
    lowest: query.get("quota") ?? "",
    unit: query.get("unit") ?? "",
  };
}

export function WhatIf() {
  const [rows, setRows] = useState(() => [newRow(place.value.query)]);
  const [horizon, setHorizon] = useState("");
  const [{ answer, asked, error, isAsking }, setState] = useState({});
  // Lists that grow old do no harm: other names can be typed.
  const offered = useAnswer("/page/names", () => false);
  const names = offered.answer ?? NO_NAMES;
  const change = (index, fields) =>
    setRows((last) => last.map((row, other) => (other === index ? { ...row, ...fields } : row)));

  async function find(event) {
    event.preventDefault();
    const body = { edits: rows.map((row) => editOf(row, names)) };
    if (horizon) body.horizonSeconds = Number(horizon);
    setState({ isAsking: true });
    try {
      setState({ answer: await ask("/page/what-if", { method: "POST", body }), asked: body });
    } catch (failure) {
      setState({ error: failure });
    }
  }

  return html`
    <h1>What if?</h1>
    <p>Edit quotas, policies, queues and nodes, and see what would change. Nothing is applied.</p>
    ${offered.error && html`<p class="hint">There are no names to choose from: ${asSentence(offered.error.message)}</p>`}
    <form onSubmit=${find}>
      ${rows.map(
        (row, index) => html`<${EditRow}
          key=${index}
          number=${index + 1}
          row=${row}
          names=${names}
          change=${(fields) => change(index, fields)}
          remove=${rows.length > 1 && (() => setRows((last) => last.filter((_, other) => other !== index)))}
        />`,
      )}
      <div class="controls">
        <button type="button" onClick=${() => setRows((last) => [...last, newRow(new URLSearchParams())])}>
          Add an edit
        </button>
        <${Choice} label="How far to look ahead" value=${horizon} options=${HORIZONS} onChange=${setHorizon} />
        <button type="submit" class="main" disabled=${isAsking}>
          ${isAsking ? "Asking… up to 20 s" : "Show what would change"}
        </button>
      </div>
    </form>
    ${error && html`<${Problem} error=${error} />`}
    <div aria-live="polite">${answer && html`<${Differences} answer=${answer} asked=${asked} />`}</div>
  `;
}

function Choice({ label, value, options, onChange }) {
  return html`<label class="field">
    ${label}
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map((each) => {
        const [key, words] = Array.isArray(each) ? each : [each, each];
        return html`<option key=${key} value=${key}>${words}</option>`;
      })}
    </select>
  </label>`;
}

/** A field for a text; `options` are offered, and others can be typed. */
function Field({ label, value, onChange, options = [], hint = "", ...others }) {
  const id = useId();
  return html`<label class="field">
    ${label}
    <input
      value=${value}
      onInput=${(event) => onChange(event.target.value)}
      list=${options.length ? id : undefined}
      autocomplete="off"
      spellcheck=${false}
      ...${others}
    />
    ${options.length > 0 &&
    html`<datalist id=${id}>${options.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>`}
    ${hint && html`<span class="hint">${hint}</span>`}
  </label>`;
}

const KINDS = [["ElasticQuota", "Quota (ElasticQuota)"], ["QuotaPolicy", "Limit or budget (QuotaPolicy)"], ["Queue", "Queue"], ["Node", "Node"]];

function EditRow({ number, row, names, change, remove }) {
  const set = (field) => (value) => change({ [field]: value });
  const known = [...new Set(knownOf(row.kind, names).map(({ name }) => name))];
  const spaces = knownOf(row.kind, names).filter(({ name }) => name === row.name).map(({ namespace }) => namespace);
  const isKnownAs = (kind) => meantBy({ ...row, kind, namespace: "" }, names).length > 0;
  const setKind = (kind) => change({ kind, namespace: "", name: isKnownAs(kind) ? row.name : "" });
  return html`<fieldset>
    <legend>Edit ${number}</legend>
    <${Chain} row=${row} names=${names} choose=${(name) => change({ name, namespace: "" })} />
    <div class="controls">
      <${Choice} label="Kind" value=${row.kind} options=${KINDS} onChange=${setKind} />
      <${Field}
        label=${row.kind === "Node" ? "A node to have more of" : "Name"}
        value=${row.name}
        options=${known}
        onChange=${(name) => change({ name, namespace: "" })}
        required
      />
      ${row.kind !== "Node" &&
      html`<${Field} label="Namespace" value=${namespaceOf(row, names)} options=${spaces} onChange=${set("namespace")} />`}
      ${row.kind === "ElasticQuota" && html`<${LimitFields} row=${row} names=${names} set=${set} />`}
      ${row.kind === "QuotaPolicy" && html`<${PolicyFields} row=${row} names=${names} set=${set} />`}
      ${row.kind === "Queue" &&
      html`<${Choice} label="Stop policy" value=${row.stopPolicy} options=${STOP_POLICIES} onChange=${set("stopPolicy")} />`}
      ${row.kind === "Node" &&
      html`<${Field} label="How many more" type="number" min="1" max="10000" value=${row.copies} onChange=${set("copies")} required />`}
      ${remove && html`<button type="button" onClick=${remove}>Remove edit ${number}</button>`}
    </div>
    <${Unknown} row=${row} names=${names} />
  </fieldset>`;
}

/** The quotas that a unit is charged to, or a quota with those above it, to choose from. */
function Chain({ row, names, choose }) {
  const chain = chainOf(row.lowest, names.quotas).filter((name) =>
    names.quotas.some((each) => each.name === name && each.editable),
  );
  if (row.kind !== "ElasticQuota" || chain.length < 2) return null;
  return html`<div class="chain" role="group" aria-label="Quotas to choose from">
    <span>${row.unit ? `${row.unit} is charged to:` : "The quota, and those above it:"}</span>
    ${chain.map(
      (name) => html`<button type="button" key=${name} aria-pressed=${name === row.name} onClick=${() => choose(name)}>
        ${name}
      </button>`,
    )}
  </div>`;
}

function LimitFields({ row, names, set }) {
  const [quota] = meantBy(row, names);
  const of = ({ min, max }) => [...Object.keys(max), ...Object.keys(min)];
  const resources = [...new Set((quota ? [quota] : names.quotas).flatMap(of))];
  const now = quota?.[row.bound][row.resource];
  return html`
    <${Choice} label="Bound" value=${row.bound} options=${["max", "min"]} onChange=${set("bound")} />
    <${Field} label="Resource" value=${row.resource} options=${resources} onChange=${set("resource")} required />
    <${Field}
      label="New amount"
      value=${row.amount}
      onChange=${set("amount")}
      required
      placeholder="such as 16 or 64Gi"
      hint=${quota && row.resource ? `now ${now ?? (row.bound === "max" ? "without a limit" : "0")}` : ""}
    />
  `;
}

/** The limits and budgets of a policy, to choose one from, and its new amount. */
export function PolicyFields({ row, names, set }) {
  const values = meantBy(row, names)[0]?.values ?? [];
  const chosen = valueOf(row, names);
  if (!chosen) return null;
  return html`
    <${Choice} label="Limit or budget" value=${chosen.path} options=${values.map(({ path, text }) => [path, text])} onChange=${set("path")} />
    <${Field} label="New amount" value=${row.amount} onChange=${set("amount")} required hint=${`now ${chosen.value}`} />
  `;
}

/** That an edit would create an object: its name may be misspelled. */
function Unknown({ row, names }) {
  const { kind, name } = row;
  if (!name || kind === "Node" || meantBy(row, names).length) return null;
  if (kind === "ElasticQuota" && names.quotas.some((each) => each.name === name)) {
    return html`<p class="hint">${name} is not an ElasticQuota, so it cannot be edited here: this would create one of its name.</p>`;
  }
  if (kind === "QuotaPolicy") return html`<p class="hint">There is no QuotaPolicy ${name} that you may edit here.</p>`;
  if (!names.complete) return null;
  return html`<p class="hint">There is no ${kind} ${name} yet: this would create it.</p>`;
}

function Differences({ answer, asked }) {
  const isNothing = !answer.startedCount && !answer.refusedCount && !answer.evictedCount && !answer.sparedCount;
  return html`<section aria-labelledby="differences">
    <h2 id="differences">What would change at once</h2>
    ${!answer.complete && html`<p class="problem">The copies of the scheduler were stopped early: more may change.</p>`}
    ${answer.unread.map((path) => html`<p class="problem" key=${path}>${unreadInWords(path)}</p>`)}
    ${isNothing && html`<${Empty}>Nothing: the same units start and wait.<//>`}
    <${Units} title="Start" total=${answer.startedCount} units=${answer.started} words=${(each) => each.before?.message} />
    <${Units} title="Wait for another reason" total=${answer.refusedCount} units=${answer.refused} words=${(each) => each.refusal?.message} />
    <${Units} title="Evicted" total=${answer.evictedCount} units=${answer.evicted} words=${evictionInWords} />
    <${Units} title="No longer evicted" total=${answer.sparedCount} units=${answer.spared.map((unit) => ({ unit }))} words=${() => ""} />
    ${answer.horizon && html`<${Horizon} horizon=${answer.horizon} />`}
    ${asked.horizonSeconds && answer.noHorizon && html`<p class="hint">No look ahead: ${answer.noHorizon}.</p>`}
    <${ToCopy} edits=${asked.edits} />
  </section>`;
}

/** Return a path as the server has it, such as `edits[0].patch.spec.max`, as a sentence. */
function unreadInWords(path) {
  const [, index, field] = /^edits\[(\d+)\]\.patch\.(.+)$/.exec(path) ?? [];
  const what = field ? `Edit ${Number(index) + 1}: the field ${field}` : path;
  return `${what} is not read by the scheduler. Is it misspelled?`;
}

function evictionInWords({ reason, forUnit, lostHours }) {
  return `${reason}${forUnit ? `, for ${forUnit}` : ""}; its pods have run for ${lostHours} h`;
}

function Units({ title, total, units, words }) {
  if (!total) return null;
  return html`<h3>${title}: ${total.toLocaleString("en-US")}</h3>
    <ul>
      ${units.map((each) => html`<li key=${each.unit}><${UnitLink} unit=${each.unit} /> <span class="hint">${words(each)}</span></li>`)}
    </ul>
    ${total > units.length && html`<p class="others">${(total - units.length).toLocaleString("en-US")} more are not named.</p>`}`;
}

/** Return each number that was compared, as {what, comparison, show}; `show` returns one as text. */
function comparisonsOf({ seconds, completed, queues, quotas, resources }) {
  const found = [];
  const add = (what, comparison, show) => comparison && found.push({ what, comparison, show });
  const showCount = (number) => number.toLocaleString("en-US");
  // Whoever still waits at the end waits longer than what was looked at.
  const showWait = (wait) => (wait === null ? `over ${span(seconds)}` : span(wait));
  add("Units that end", completed, showCount);
  for (const [word, places] of [["queue", queues], ["quota", quotas]]) {
    for (const each of places) {
      add(`Median wait, ${word} ${each.name}`, each.waitP50, showWait);
      add(`Wait of nine in ten, ${word} ${each.name}`, each.waitP90, showWait);
      add(`Units that end, ${word} ${each.name}`, each.completed, showCount);
    }
  }
  for (const { resource, used } of resources) {
    add(`${resource} used on average`, used, (amount) => showAmount(resource, resource === "cpu" ? amount / 1000 : amount));
  }
  return found;
}

function Horizon({ horizon }) {
  const compared = comparisonsOf(horizon);
  const clear = compared.filter(({ comparison }) => comparison.isClear);
  const rest = compared.length - clear.length;
  return html`<h2>Over ${span(horizon.seconds)}</h2>
    <p class="hint">
      ${horizon.paths} possible futures, each with the edits and without: the median, and the spread of eight
      in ten. Based on: ${horizon.basis}.
    </p>
    ${clear.length > 0 &&
    html`<div class="scroll" tabindex="0" role="group" aria-label="Differences over time">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">What</th>
            ${["Without", "With", "Difference", "Spread"].map((word) => html`<th scope="col" class="number" key=${word}>${word}</th>`)}
          </tr>
        </thead>
        <tbody>${clear.map((row) => html`<${HorizonRow} key=${row.what} ...${row} />`)}</tbody>
      </table>
    </div>`}
    ${clear.length > 0
      ? rest > 0 && html`<p class="others">Not shown: ${count(rest, "difference")} within chance.</p>`
      : html`<${Empty}>Nothing differs by more than chance. Compared: ${count(rest, "number")}.<//>`}`;
}

function HorizonRow({ what, comparison: { before, after, difference }, show }) {
  const showChange = (number) => (number > 0 ? `+${show(number)}` : show(number));
  return html`<tr>
    <th scope="row">${what}</th>
    <td class="number" data-label="without">${show(before.p50)}</td>
    <td class="number" data-label="with">${show(after.p50)}</td>
    <td class="number" data-label="difference">${showChange(difference.p50)}</td>
    <td class="number" data-label="spread">${showChange(difference.p10)} to ${showChange(difference.p90)}</td>
  </tr>`;
}

/** The edits, to be applied by whoever may: as manifests' fields, and as commands. */
function ToCopy({ edits }) {
  const patches = edits.filter((each) => each.patch || each.operations);
  if (!patches.length) return null;
  const full = patches.map((each) => ({ apiVersion: API_VERSIONS[each.kind], ...each }));
  // A part of a list has no manifest of its own.
  const merged = full.filter((each) => each.patch);
  return html`<h2>To apply it yourself</h2>
    ${patches.some((each) => !each.namespace) &&
    html`<p class="hint">Without a namespace, kubectl takes the current one of its context.</p>`}
    <${Snippet} text=${full.map(patchCommand).join("\n")} label="as kubectl" />
    ${merged.length > 0 && html`<${Snippet} text=${merged.map(manifestOf).join("---\n")} label="as YAML" />`}`;
}

function manifestOf({ apiVersion, kind, name, namespace, patch }) {
  const { metadata, ...rest } = patch;
  const named = namespace ? { name, namespace, ...metadata } : { name, ...metadata };
  return toYaml({ apiVersion, kind, metadata: named, ...rest });
}
