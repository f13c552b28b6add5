// A long list of which only the rows that are seen exist, and only the pages around them are asked
// for.
import { ask, inTurn, onNews } from "./api.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

export const PAGE = 200;
const OVERSCAN = 12;

/** Return the height of a row in pixels, which the style sheet has in rem: a viewer may have chosen larger text. */
function rowHeight() {
  const style = getComputedStyle(document.documentElement);
  return parseFloat(style.getPropertyValue("--row")) * parseFloat(style.fontSize);
}

/**
 * Ask for the pages of a list as they come into view.
 *
 * `pathOf(offset, limit)` is changed with what the list is of, and `key` with it; `concerns(news)`
 * says when what was answered is old. Returns {first, units, error, see, again}: the newest page's
 * answer, units by index, and what to call with the rows that are seen.
 */
export function usePages(key, pathOf, concerns) {
  const [state, setState] = useState(() => empty(key));
  const pages = useRef(null);

  useEffect(() => {
    const abort = new AbortController();
    const current = new Pages((page) =>
      ask(pathOf(page * PAGE, PAGE), { signal: abort.signal }).then(
        (answer) => setState((last) => withPage(last, key, page, answer)),
        (error) => {
          if (error.name === "AbortError") return;
          setState((last) => ({ ...(last.key === key ? last : empty(key)), error }));
        },
      ),
    );
    pages.current = current;
    current.renew();
    const end = onNews(concerns, () => current.renew());
    return () => {
      end();
      abort.abort();
    };
  }, [key]);

  return {
    ...(state.key === key ? state : empty(key)),
    see: (start, end) => pages.current?.see(start, end),
    again: () => pages.current.renew(),
  };
}

/** Which pages are seen, and which were asked for; `load(page)` returns a promise. */
class Pages {
  constructor(load) {
    this.load = load;
    this.seen = [0];
    // By page, a function that asks for it, one request at a time.
    this.asked = new Map();
  }

  /** Ask for the pages of these rows that were not asked for. */
  see(start, end) {
    this.seen = [];
    for (let page = Math.floor(start / PAGE); page * PAGE < end; page += 1) this.seen.push(page);
    this.seen.filter((page) => !this.asked.has(page)).forEach((page) => this.ask(page));
  }

  /** Ask anew for what is seen; all else is asked for again when it is seen. */
  renew() {
    for (const page of this.asked.keys()) if (!this.seen.includes(page)) this.asked.delete(page);
    this.seen.forEach((page) => this.ask(page));
  }

  ask(page) {
    if (!this.asked.has(page)) this.asked.set(page, inTurn(() => this.load(page)));
    this.asked.get(page)();
  }
}

function empty(key) {
  return { key, first: null, units: new Map(), error: null };
}

function withPage(last, key, page, answer) {
  const { first, units } = last.key === key ? last : empty(key);
  const merged = new Map(units);
  for (let index = 0; index < PAGE; index += 1) {
    const unit = answer.units[index];
    if (unit) merged.set(page * PAGE + index, unit);
    else merged.delete(page * PAGE + index);
  }
  return { key, first: answer ?? first, units: merged, error: null };
}

/**
 * The rows that are seen, in a region that scrolls.
 *
 * `columns` are {key, title, cell(row), sort}; `total` is how many rows there are in all.
 */
export function VirtualTable({ columns, total, rowAt, label, sort, onSort, see }) {
  const region = useRef(null);
  const [{ start, end }, setRange] = useState({ start: 0, end: 40 });
  // A narrow window has higher rows.
  const [height, setHeight] = useState(rowHeight);

  function look() {
    if (!region.current) return; // the observer sees the end of a list, too
    setHeight(rowHeight());
    const { scrollTop, clientHeight } = region.current;
    const from = Math.max(0, Math.floor(scrollTop / height) - OVERSCAN);
    const to = Math.min(total, Math.ceil((scrollTop + clientHeight) / height) + OVERSCAN);
    setRange((last) => (last.start === from && last.end === to ? last : { start: from, end: to }));
    see(from, Math.max(to, from + 1));
  }

  useLayoutEffect(look, [total, height]);
  useEffect(() => {
    // It looks after the layout, when the style of the new width is in force, and once at first: a window
    // that changes before this runs is not missed.
    const observer = new ResizeObserver(look);
    observer.observe(region.current);
    return () => observer.disconnect();
  }, [total, height]);

  const rows = [];
  for (let index = start; index < Math.min(end, total); index += 1) rows.push(index);
  return html`<div class="virtual" ref=${region} onScroll=${look} tabindex="0" role="group" aria-label=${label}>
    <div class="all" style=${{ height: `${(total + 1) * height}px` }}>
      <table aria-rowcount=${total + 1} style=${{ top: `${start * height}px` }}>
        <thead>
          <tr aria-rowindex="1">
            ${columns.map((column) => html`<${Heading} key=${column.key} ...${{ column, sort, onSort }} />`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map((index) => html`<${Row} key=${index} index=${index} columns=${columns} row=${rowAt(index)} />`)}
        </tbody>
      </table>
    </div>
  </div>`;
}

function Heading({ column, sort, onSort }) {
  const up = column.sort && sort === column.sort;
  const down = column.sort && sort === `-${column.sort}`;
  const order = (up && "ascending") || (down && "descending") || undefined;
  return html`<th scope="col" class=${`c-${column.key}`} aria-sort=${order}>
    ${column.sort
      ? html`<button type="button" class="sort" onClick=${() => onSort(up ? `-${column.sort}` : column.sort)}>
          ${column.title}${(up && " ▴") || (down && " ▾") || ""}
        </button>`
      : column.title}
  </th>`;
}

function Row({ index, columns, row }) {
  return html`<tr aria-rowindex=${index + 2}>
    ${columns.map((column) => html`<td
      key=${column.key}
      class=${`c-${column.key}`}
      data-label=${column.title}
      title=${row && column.hint ? column.hint(row) : undefined}
    >
      ${row ? column.cell(row, index) : column.key === "unit" ? "…" : ""}
    </td>`)}
  </tr>`;
}
