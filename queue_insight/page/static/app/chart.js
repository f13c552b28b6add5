// Numbers over time, by uPlot. It draws on a canvas, so they stand in a table as well.
import { html, useEffect, useRef } from "./html.js";
import uPlot from "../vendor/uplot.js";

const HEIGHT = 240;
const HOUR = new Intl.DateTimeFormat("en-US", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric" });
// From here on the hour alone would stand for several days.
const LONG_SECONDS = 36 * 3600;

/** Distances of marks on an axis of seconds that are whole minutes, hours or days. */
export const OF_SECONDS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * 86400),
];
/** Distances of marks on the axis of time, in seconds: a mark has hours and minutes. */
const OF_TIME = OF_SECONDS.filter((each) => each >= 60);
/** Distances of marks on an axis of bytes: 1Ki, 2Ki, 4Ki and so on. */
export const OF_BYTES = Array.from({ length: 62 }, (_, power) => 2 ** power);

/**
 * A chart of lines.
 *
 * `times` are seconds since the epoch, `lines` are {label, values, color, dash, points} with a
 * custom property's name as the color; `points`: each value has a point, since it may stand alone,
 * but not where `again` says that it is the one before.
 * `show` returns a number as text, `marks` are the distances that marks of the axis may have,
 * `height` is in pixels, without the legend.
 */
export function Chart({ label, show, marks, times, lines, again, height = HEIGHT }) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        optionsOf({ width: box.current.clientWidth, height }, { times, lines, again, show, marks }),
        [times, ...lines.map((line) => line.values)],
        box.current,
      );
    };
    const fit = () => plot.current?.setSize({ width: box.current.clientWidth, height });
    draw();
    // The colors of a canvas do not follow the style sheet.
    dark.addEventListener("change", draw);
    window.addEventListener("resize", fit);
    return () => {
      dark.removeEventListener("change", draw);
      window.removeEventListener("resize", fit);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [label, JSON.stringify([times, lines])]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}

function optionsOf(size, { times, lines, again, show: showNumber, marks }) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
  const show = (amount) => (amount === null || amount === undefined ? "" : showNumber(amount));
  const first = times.map((_, index) => index).filter((index) => !again[index]);
  const isLong = times.at(-1) - times[0] > LONG_SECONDS;
  const clock = (time) => (isLong ? `${DAY.format(time * 1000)}, ${HOUR.format(time * 1000)}` : HOUR.format(time * 1000));
  return {
    ...size,
    hooks: { ready: [showLast], setCursor: [(plot) => plot.cursor.idx == null && showLast(plot)] },
    scales: { y: { range: (_plot, _least, most) => [0, (most || 1) * 1.05] } },
    axes: [
      { ...axis, incrs: OF_TIME, space: isLong ? 110 : 50, values: (_plot, ticks) => ticks.map(clock) },
      { ...axis, ...(marks && { incrs: marks }), size: 70, values: (_plot, ticks) => ticks.map(show) },
    ],
    series: [
      { value: (_plot, time) => (time ? clock(time) : "") },
      ...lines.map((line) => ({
        label: line.label,
        stroke: color(line.color),
        width: 2,
        dash: line.dash,
        points: line.points ? { show: true, size: 5, filter: () => first } : { show: false },
        value: (_plot, amount) => show(amount),
        // An amount holds until the next one.
        paths: uPlot.paths.stepped({ align: 1 }),
      })),
    ],
  };
}

/** Show the last numbers in the legend, where no others are pointed at. */
function showLast(plot) {
  const [times, ...lines] = plot.data;
  const last = times.findLastIndex((_, index) => lines.some((values) => values[index] !== null));
  plot.setLegend({ idx: last < 0 ? times.length - 1 : last });
}
