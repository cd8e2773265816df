// @ts-check
/** A run's curves in the server's groups: the values as they are, faint, and smoothed in front of them. */
import { html, useMemo, useState } from "../html.js";
import { number } from "../format.js";
import { Chart, smooth } from "../parts/chart.js";
import { navigate, query, setQuery, to } from "../route.js";

/** @typedef {import("../types.js").Metrics} Metrics */
/** @typedef {import("../types.js").MetricRow} MetricRow */

const FOLDED = ["Signal", "Others"];
const SMOOTHINGS = [["0", "None"], ["0.6", "Some"], ["0.9", "Strong"]];

/** @param {{run: string, metrics: Metrics}} props */
export function Charts({ run, metrics }) {
  const weight = Number(query("smooth", "0.6")) || 0;
  const groups = useMemo(() => metrics.groups.map((group) => ({ ...group, curves: group.metrics.map((name) => ({ name, ...findCurve(metrics, name) })).filter((curve) => curve.points.length > 0) })).filter((group) => group.curves.length), [metrics]);
  return html`<section class="section" aria-labelledby="charts-title">
    <div class="section-head">
      <h2 id="charts-title">Curves</h2>
      <div class="row small"><span class="muted" id="smooth-label">Smoothing</span>
        <div class="segmented" role="group" aria-labelledby="smooth-label">${SMOOTHINGS.map(([value, text]) => html`<button type="button" key=${value}
          aria-pressed=${Number(value) === weight} onClick=${() => setQuery({ smooth: value === "0.6" ? null : value })}>${text}</button>`)}</div></div>
    </div>
    ${groups.map((group) => html`<${Group} key=${group.title} run=${run} title=${group.title} curves=${group.curves} metrics=${metrics} weight=${weight} />`)}
  </section>`;
}

/** Reward of training and of validation over each other, large. @param {{run: string, metrics: Metrics|null}} props */
export function RewardCard({ run, metrics }) {
  const weight = Number(query("smooth", "0.6")) || 0;
  const lines = useMemo(() => {
    if (!metrics) return [];
    const training = collect(metrics.train, "reward/mean");
    const validation = collect(metrics.validation, "val/reward/mean");
    return [
      ...(weight && training.length > 3 ? [{ label: "training", points: training, series: 1, faint: true }] : []),
      { label: weight && training.length > 3 ? "training, smoothed" : "training", points: weight && training.length > 3 ? smooth(training, weight) : training, series: 1 },
      ...(validation.length ? [{ label: "validation", points: validation, series: 3, dots: true }] : []),
    ];
  }, [metrics, weight]);
  const open = (/** @type {number} */ step) => navigate(to.worst(run, step));
  return html`<section class="card" aria-labelledby="reward-title">
    <div class="card-head"><h2 id="reward-title">Reward</h2><ul class="legend"><li><span class="swatch s1"></span>training</li>${lines.some((line) => line.series === 3) && html`<li><span class="swatch s3"></span>validation</li>`}</ul></div>
    <div class="card-body">${lines.length ? html`<${Chart} title="Mean reward" plainTitle lines=${lines} tall sync=${`run ${run}`} onStep=${open} />` : html`<div class="chart-canvas tall"></div>`}
      <p class="faint small">Click a step to open its worst group.</p></div>
  </section>`;
}

/** @typedef {{name: string, points: [number, number|null][], validation: boolean}} NamedCurve */

/** @param {{run: string, title: string, curves: NamedCurve[], metrics: Metrics, weight: number}} props */
function Group({ run, title, curves, metrics, weight }) {
  const [open, setOpen] = useState(!FOLDED.includes(title));
  // A value that never changes needs no picture.
  const [moving, still] = useMemo(() => [curves.filter(isMoving), curves.filter((curve) => !isMoving(curve))], [curves]);
  return html`<details class="card chart-group" open=${open} onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary class="card-head"><h3>${title}</h3><span class="muted small">${curves.length}</span></summary>
    ${open && html`<div class="card-body stack">
      ${moving.length > 0 && html`<div class="chart-grid">
        ${moving.map((curve) => html`<${Curve} key=${curve.name} run=${run} curve=${curve} about=${metrics.names[curve.name]} weight=${weight} />`)}</div>`}
      ${still.length > 0 && html`<dl class="constants">${still.map((curve) => html`<div key=${curve.name} title=${metrics.names[curve.name]?.meaning ?? undefined}>
        <dt>${curve.name}</dt><dd>${number(curve.points[0]?.[1])}${curve.points.length > 1 ? html` <span class="faint">in all ${curve.points.length} steps</span>` : ""}</dd></div>`)}</dl>`}
    </div>`}
  </details>`;
}

/** @param {{run: string, curve: NamedCurve, about: {unit: string|null, meaning: string|null}|undefined, weight: number}} props */
function Curve({ run, curve, about, weight }) {
  const lines = useMemo(() => {
    if (!weight || curve.validation || curve.points.length < 4) return [{ label: "value", points: curve.points, series: curve.validation ? 3 : 1 }];
    return [{ label: "value", points: curve.points, series: 1, faint: true }, { label: "smoothed", points: smooth(curve.points, weight), series: 1 }];
  }, [curve.points, weight]);
  const openStep = curve.validation ? (/** @type {number} */ step) => navigate(to.episodes(run, { filter: `split:validation step:${step}` })) : (/** @type {number} */ step) => navigate(to.worst(run, step));
  return html`<${Chart} title=${curve.name} level=${4} lines=${lines} unit=${about?.unit} meaning=${about?.meaning} sync=${`run ${run}`} onStep=${openStep} />`;
}

/** @param {NamedCurve} curve */
function isMoving(curve) {
  return curve.points.length > 1 && curve.points.some(([, value]) => value !== curve.points[0]?.[1]);
}

/** Return a metric's points, from training or from validation. @param {Metrics} metrics @param {string} name */
export function findCurve(metrics, name) {
  const points = collect(metrics.train, name);
  return points.length ? { points, validation: false } : { points: collect(metrics.validation, name), validation: true };
}

/** @param {MetricRow[]} rows @param {string} name @returns {[number, number|null][]} */
function collect(rows, name) {
  /** @type {[number, number|null][]} */
  const points = [];
  for (const row of rows) {
    const value = row[name];
    if (typeof value === "number") points.push([row.step, value]);
  }
  return points;
}
