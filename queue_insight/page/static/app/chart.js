// Amounts over time, by uPlot. It draws on a canvas, so its numbers stand in a table as well.
import { showAmount } from "./format.js";
import { html, useEffect, useRef } from "./html.js";
import uPlot from "../vendor/uplot.js";

const HEIGHT = 240;
const HOUR = new Intl.DateTimeFormat("en-US", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/**
 * A chart of lines.
 *
 * `times` are seconds since the epoch, `lines` are {label, values, color, dash} with a custom
 * property's name as the color.
 */
export function Chart({ label, resource, times, lines }) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        optionsOf(box.current.clientWidth, resource, lines),
        [times, ...lines.map((line) => line.values)],
        box.current,
      );
    };
    const fit = () => plot.current?.setSize({ width: box.current.clientWidth, height: HEIGHT });
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
  }, [resource, JSON.stringify([times, lines])]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}

function optionsOf(width, resource, lines) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
  const show = (amount) => (amount === null || amount === undefined ? "" : showAmount(resource, amount));
  return {
    width,
    height: HEIGHT,
    scales: { y: { range: (_plot, _least, most) => [0, (most || 1) * 1.05] } },
    axes: [{ ...axis, values: (_plot, ticks) => ticks.map((tick) => HOUR.format(tick * 1000)) }, { ...axis, size: 70, values: (_plot, ticks) => ticks.map(show) }],
    series: [
      { value: (_plot, time) => (time ? HOUR.format(time * 1000) : "") },
      ...lines.map((line) => ({
        label: line.label,
        stroke: color(line.color),
        width: 2,
        dash: line.dash,
        points: { show: false },
        value: (_plot, amount) => show(amount),
        // An amount holds until the next one.
        paths: uPlot.paths.stepped({ align: 1 }),
      })),
    ],
  };
}
