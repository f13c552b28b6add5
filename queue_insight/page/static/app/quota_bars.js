// Quotas as bars: how much is used of which limit.
import { amountOf, showAmount } from "./format.js";
import { html } from "./html.js";
import { Badge } from "./parts.js";
import { Link, pathTo } from "./router.js";

// Device resources first: where there are any, they are what everybody waits for.
const LAST = ["cpu", "memory", "ephemeral-storage", "pods"];

/** Return the resources that quotas speak of, those that are mostly scarce first. */
export function resourcesOf(quotas) {
  const found = new Set();
  const visit = (quota) => {
    for (const field of ["min", "max", "used", "charged"]) {
      Object.keys(quota[field] ?? {}).forEach((resource) => found.add(resource));
    }
    (quota.children ?? []).forEach(visit);
  };
  quotas.forEach(visit);
  const rank = (resource) => LAST.indexOf(resource) + 1;
  return [...found].sort((one, other) => rank(one) - rank(other) || one.localeCompare(other));
}

/**
 * Return the numbers of one quota and resource; NaN where there is no limit.
 *
 * `room` is what a full bar stands for: the max, or else the most of the other numbers.
 */
export function numbersOf(quota, resource) {
  const read = (field) => amountOf(quota[field]?.[resource]);
  const orZero = (number) => (Number.isNaN(number) ? 0 : number);
  const used = orZero(read("used"));
  const booked = orZero(read("protected"));
  const guaranteed = orZero(amountOf(quota.scaledMin?.[resource] ?? quota.min?.[resource]));
  const max = read("max");
  const runtime = read("runtime");
  const rest = Math.max(used + booked, guaranteed, orZero(runtime));
  return {
    used,
    booked,
    guaranteed,
    max,
    runtime,
    borrowed: Math.max(0, used - guaranteed),
    room: max > 0 ? Math.max(max, used) : rest,
  };
}

/**
 * Return how much of each resource the quota trees use, the fullest first.
 *
 * Quotas without a tree count as one. `borrowed` is what their quotas use above what they are
 * guaranteed, `room` what a full bar stands for.
 */
export function usesOf(quotas) {
  const alone = quotas.filter((quota) => !quota.children?.length);
  const groups = quotas.filter((quota) => quota.children?.length).map((quota) => [quota]);
  if (alone.length) groups.push(alone);
  const uses = groups.flatMap((group) => resourcesOf(group).map((resource) => useOf(group, resource)));
  return uses.filter(({ room }) => room > 0).sort((one, other) => shareOf(other) - shareOf(one));
}

function useOf(group, resource) {
  const numbers = group.map((quota) => numbersOf(quota, resource));
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const isOne = group.length === 1;
  return {
    name: isOne ? group[0].name : "All quotas",
    isOne,
    resource,
    used: sum(numbers.map(({ used }) => used)),
    borrowed: sum(group.map((quota) => borrowedIn(quota, resource))),
    room: sum(numbers.map(({ room }) => room)),
    isHidden: group.some((quota) => quota.sumsHidden),
  };
}

function shareOf({ used, room, isHidden }) {
  return isHidden ? 0 : used / room;
}

function borrowedIn(quota, resource) {
  if (!quota.children?.length) return numbersOf(quota, resource).borrowed;
  return quota.children.reduce((total, child) => total + borrowedIn(child, resource), 0);
}

/** A bar of what is used, borrowed and free. */
export function UseBar({ used, borrowed, room }) {
  const share = (amount) => `${Math.min(100, (100 * amount) / room)}%`;
  return html`<span class="bar" aria-hidden="true">
    <span class="own" style=${{ width: share(Math.max(0, used - borrowed)) }}></span>
    <span class="borrowed" style=${{ width: share(Math.min(used, borrowed)) }}></span>
  </span>`;
}

/** What the colors of such bars mean. */
export function UseLegend() {
  return html`<ul class="legend" aria-label="What the bars of use show">
    <li><span class="swatch own"></span>used</li>
    <li><span class="swatch borrowed"></span>borrowed: used above what is guaranteed</li>
    <li><span class="swatch free"></span>free</li>
  </ul>`;
}

/** In place of sums that are hidden from the viewer. */
export function SumsHidden() {
  return html`<span class="hint">
    not shown: it would tell about one or two namespaces whose units you may not list
  </span>`;
}

/** One bar. Its numbers stand beside it as text, so a screen reader skips the picture. */
export function QuotaBar({ quota, resource }) {
  const { used, booked, guaranteed, runtime, borrowed, room } = numbersOf(quota, resource);
  const share = (amount) => `${room > 0 ? Math.min(100, (100 * amount) / room) : 0}%`;
  return html`<span class="bar" aria-hidden="true">
    <span class="own" style=${{ width: share(used - borrowed) }}></span>
    <span class="borrowed" style=${{ width: share(borrowed) }}></span>
    <span class="booked" style=${{ width: share(booked) }}></span>
    ${guaranteed > 0 && html`<span class="mark min" style=${{ left: share(guaranteed) }}></span>`}
    ${runtime > 0 && html`<span class="mark runtime" style=${{ left: share(runtime) }}></span>`}
  </span>`;
}

/** What the colors and marks of bars mean. */
export function BarLegend() {
  return html`<ul class="legend" aria-label="What the bars show">
    <li><span class="swatch own"></span>used</li>
    <li><span class="swatch borrowed"></span>borrowed: used above what is guaranteed</li>
    <li><span class="swatch booked"></span>kept for waiting units</li>
    <li><span class="swatch mark min"></span>guaranteed (min)</li>
    <li><span class="swatch mark runtime"></span>runtime</li>
  </ul>`;
}

const COLUMNS = ["Used", "Min", "Max", "Runtime", "Borrowed"];

/** The quotas as a table, each below its parent. */
export function QuotaTree({ quotas, resource }) {
  const rows = [];
  const visit = (quota, depth) => {
    rows.push([quota, depth]);
    (quota.children ?? []).forEach((child) => visit(child, depth + 1));
  };
  quotas.forEach((quota) => visit(quota, 0));
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Quotas">
    <table class="cards quotas">
      <thead>
        <tr>
          <th scope="col">Quota</th>
          <th scope="col" class="wide">${resource}</th>
          ${COLUMNS.map(
            (word) => html`<th scope="col" class="number" key=${word}>${word}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(([quota, depth]) => html`<${Row} key=${quota.name} ...${{ quota, depth, resource }} />`)}
      </tbody>
    </table>
  </div>`;
}

function Row({ quota, depth, resource }) {
  const { used, guaranteed, max, runtime, borrowed } = numbersOf(quota, resource);
  const show = (amount) => (Number.isNaN(amount) ? "–" : showAmount(resource, amount));
  return html`<tr>
    <th scope="row" class=${`depth-${Math.min(depth, 6)}`}>
      <${Link} to=${pathTo("quotas", quota.name)}>${quota.name}<//>
      ${quota.problems?.length > 0 && html` <${Badge} tone="warn">${quota.problems.length} wrong<//>`}
    </th>
    <td class="wide">
      ${quota.sumsHidden
        ? html`<${SumsHidden} />`
        : html`<${QuotaBar} quota=${quota} resource=${resource} />`}
    </td>
    ${[quota.sumsHidden ? NaN : used, guaranteed, max, runtime, borrowed || null].map(
      (amount, index) => html`<td class="number" data-label=${COLUMNS[index].toLowerCase()} key=${index}>
        ${amount === null ? "" : show(amount)}</td>`,
    )}
  </tr>`;
}
