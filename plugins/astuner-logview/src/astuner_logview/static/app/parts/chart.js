// @ts-check
/** A chart of curves over steps: uPlot that follows the theme and the width, read by keyboard and by screen readers. */
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import "../language.js";
import uPlot from "../../vendor/uplot.js";
import { fixed, number, short } from "../format.js";
import { colour, colours } from "../theme.js";

/** @typedef {{label: string, points: [number, number|null][], series?: number, faint?: boolean, dots?: boolean}} Line `series` is 1 to 8; `faint` is drawn thin, behind; `dots` marks each point */

/** Fewer marked points than this are not joined. */
const FEW = 4;

const SHORT_UNITS = new Set(["s", "tokens", "tokens/s", "nats", "bytes", "GB", "MB", "episodes", "%"]);

/**
 * @param {{title: string, lines: Line[], unit?: string|null, meaning?: string|null, tall?: boolean, sync?: string, onStep?: (step: number) => void, xLabel?: string, plainTitle?: boolean, level?: 3|4}} props
 *   charts with the same `sync` share their cursor; `onStep` makes a step's click and Enter act
 */
export function Chart({ title, lines, unit, meaning, tall = false, sync, onStep, xLabel = "step", plainTitle = false, level = 3 }) {
  const holder = useRef(/** @type {HTMLDivElement|null} */ (null));
  const plot = useRef(/** @type {uPlot|null} */ (null));
  const act = useRef(onStep);
  act.current = onStep;
  const [at, setAt] = useState(/** @type {number|null} */ (null));
  const [left, setLeft] = useState(0);
  const [near, setNear] = useState(false);
  const data = useMemo(() => align(lines), [lines]);
  const shape = lines.map((line) => `${line.label} ${line.series} ${line.faint} ${Boolean(line.dots) && line.points.length < FEW}`).join("|");
  const theme = colours.value;

  useEffect(() => {
    const element = holder.current;
    if (!element) return undefined;
    const hear = (/** @type {uPlot} */ chart) => {
      setAt(chart.cursor.idx ?? null);
      setLeft(chart.cursor.left ?? 0);
      // Charts that only follow another one's cursor show their value in their heading.
      setNear(element.matches(":hover, :focus"));
    };
    const options = describeOptions(lines, element, sync, hear);
    const chart = new uPlot(options, data, element);
    plot.current = chart;
    const watch = new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== chart.width) chart.setSize({ width: element.clientWidth, height: element.clientHeight });
    });
    watch.observe(element);
    const click = () => {
      const step = chart.cursor.idx === null || chart.cursor.idx === undefined ? undefined : chart.data[0][chart.cursor.idx];
      if (step !== undefined) act.current?.(step);
    };
    chart.over.addEventListener("click", click);
    return () => {
      watch.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [shape, theme, sync]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const chart = plot.current;
    const steps = data[0];
    if (!chart || steps.length === 0) return;
    const from = at ?? -1;
    /** @type {Record<string, number>} */
    const goal = { ArrowRight: Math.min(from + 1, steps.length - 1), ArrowLeft: Math.max(from - 1, 0), Home: 0, End: steps.length - 1 };
    const next = goal[event.key];
    if (next !== undefined) {
      event.preventDefault();
      chart.setCursor({ left: chart.valToPos(steps[next] ?? 0, "x"), top: chart.over.clientHeight / 2 });
    } else if (event.key === "Enter" && at !== null && act.current) {
      event.preventDefault();
      act.current(steps[at] ?? 0);
    }
  };
  const shown = at !== null && data[0][at] !== undefined ? at : null;
  // What was measured, not what was smoothed, is the value that a reader takes away.
  const last = lastValue(lines[0]);
  const shownUnit = unit && SHORT_UNITS.has(unit) ? ` ${unit}` : "";
  const followed = shown !== null && !near && typeof data[1]?.[shown] === "number" ? html`<span class="faint">${xLabel} ${data[0][shown]}</span> ${number(data[1][shown])}${shownUnit}` : null;
  const chosen = shown ?? data[0].length - 1;
  return html`<figure class="chart" title=${shown === null ? meaning ?? undefined : undefined}>
    <figcaption class=${plainTitle ? "sr-only" : "chart-head"}><${level === 4 ? "h4" : "h3"} class="chart-title">${title}<//><span class="now">${followed ?? (last === null ? "no values" : `${number(last)}${shownUnit}`)}</span></figcaption>
    <div class=${`chart-canvas ${tall ? "tall" : ""}`} ref=${holder} tabindex="0" role="slider" aria-valuemin="0" aria-valuemax=${Math.max(data[0].length - 1, 0)} aria-valuenow=${Math.max(chosen, 0)}
      aria-valuetext=${describePlace(lines, data, chosen, xLabel)} aria-label=${`${summarize(title, lines)}${meaning ? ` ${meaning}` : ""}${onStep ? " Enter opens the chosen step." : ""}`} onKeyDown=${move}>
      ${shown !== null && near && html`<${Tip} index=${shown} left=${left} width=${plot.current?.width ?? 0} lines=${lines} data=${data} xLabel=${xLabel} />`}
    </div>
  </figure>`;
}

/** @param {{index: number, left: number, width: number, lines: Line[], data: uPlot.AlignedData, xLabel: string}} props */
function Tip({ index, left, width, lines, data, xLabel }) {
  const side = left > width / 2 ? { right: `${Math.max(width - left - 28, 0)}px` } : { left: `${left + 64}px` };
  return html`<div class="chart-tip" style=${side} aria-hidden="true">
    <div class="muted">${xLabel} ${data[0][index]}</div>
    <table><tbody>${lines.map((line, at) => {
      const value = data[at + 1]?.[index];
      return value === null || value === undefined ? null : html`<tr key=${at}><td><span class=${`swatch s${line.series ?? 1}`}></span> ${line.label}</td><td>${number(value)}</td></tr>`;
    })}</tbody></table>
  </div>`;
}

/** @param {Line[]} lines @param {HTMLElement} element @param {string|undefined} sync @param {(chart: uPlot) => void} hear @returns {uPlot.Options} */
function describeOptions(lines, element, sync, hear) {
  const axis = { stroke: colour("--faint"), font: `11px ${colour("--sans")}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: element.clientWidth || 300,
    height: element.clientHeight || 168,
    padding: [8, 10, 0, 0],
    cursor: { y: false, drag: { x: true, y: false }, points: { size: 7 }, ...(sync ? { sync: { key: sync, setSeries: false, scales: ["x", null] } } : {}) },
    legend: { show: false },
    scales: { x: { time: false }, y: { range: widen } },
    axes: [
      { ...axis, size: 28, gap: 6, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000] },
      { ...axis, size: (_, labels) => Math.max(40, 14 + 6.5 * Math.max(...(labels ?? []).map((label) => label.length), 0)), gap: 6, space: 34, values: (_, ticks, _axis, _space, increment) => labelTicks(ticks, increment) },
    ],
    series: [{}, ...lines.map((line) => {
      const stroke = colour(`--series-${line.series ?? 1}`);
      const alone = line.dots || line.points.length < 2;
      // A line through a few validations would cross the curve of the training between them.
      const loose = line.dots && line.points.length < FEW;
      return { label: line.label, stroke, ...(loose ? { paths: () => null } : {}), width: line.faint ? 1 : 2, alpha: line.faint ? 0.5 : 1, spanGaps: true, points: { show: alone || undefined, size: 6, fill: stroke } };
    })],
    hooks: { setCursor: [hear] },
  };
}

/** Write ticks with the decimals that tell them apart; large ones in short. @param {number[]} ticks @param {number} increment */
function labelTicks(ticks, increment) {
  let decimals = Math.max(-Math.floor(Math.log10(increment) + 1e-9), 0);
  // 0.25 needs one more than 0.2.
  if (Math.abs(Number(increment.toFixed(decimals)) - increment) > increment * 1e-6) decimals += 1;
  const largest = Math.max(...ticks.map(Math.abs));
  if (largest >= 10_000) return ticks.map(short);
  if (decimals > 4 && largest < 1e-2) return ticks.map((tick) => number(tick, 3));
  return ticks.map((tick) => fixed(tick, Math.min(decimals, 8)));
}

/** Leave room above and below, also for a line that is flat. @param {uPlot} _ @param {number|null} low @param {number|null} high @returns {[number, number]} */
function widen(_, low, high) {
  if (low === null || high === null) return [0, 1];
  const room = high > low ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 0.5;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

/** Put lines on the union of their steps. @param {Line[]} lines @returns {uPlot.AlignedData} */
function align(lines) {
  const steps = [...new Set(lines.flatMap((line) => line.points.map(([step]) => step)))].sort((a, b) => a - b);
  return /** @type {uPlot.AlignedData} */ ([steps, ...lines.map((line) => {
    const values = new Map(line.points);
    return steps.map((step) => values.get(step) ?? null);
  })]);
}

/** @param {Line|undefined} line */
function lastValue(line) {
  return line?.points.findLast(([, value]) => value !== null)?.[1] ?? null;
}

/** @param {Line[]} lines @param {uPlot.AlignedData} data @param {number} index @param {string} xLabel */
function describePlace(lines, data, index, xLabel) {
  if (data[0][index] === undefined) return "no values";
  const values = lines.flatMap((line, at) => (line.faint || data[at + 1]?.[index] == null ? [] : [`${line.label} ${number(data[at + 1]?.[index])}`]));
  return `${xLabel} ${data[0][index]}: ${values.join(", ")}`;
}

/** @param {string} title @param {Line[]} lines */
function summarize(title, lines) {
  const said = lines.filter((line) => !line.faint).map((line) => {
    const values = /** @type {number[]} */ (line.points.map(([, value]) => value).filter((value) => value !== null));
    if (!values.length) return `${line.label}: no values.`;
    return `${line.label}: ${values.length} points, from ${number(values[0])} to ${number(values.at(-1))}, lowest ${number(Math.min(...values))}, highest ${number(Math.max(...values))}.`;
  });
  return `Chart of ${title}. ${said.join(" ")}`;
}

/**
 * Return a line smoothed by an exponential average that treats its start fairly.
 * @param {[number, number|null][]} points @param {number} weight of what came before, 0 to 1
 * @returns {[number, number|null][]}
 */
export function smooth(points, weight) {
  let [sum, norm] = [0, 0];
  return points.map(([step, value]) => {
    if (value === null) return [step, null];
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return [step, sum / norm];
  });
}
