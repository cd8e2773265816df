// @ts-check
/** The rewards and each component: spread and course over the steps. */
import { html, useMemo } from "../html.js";
import { count, number, safe } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Histogram } from "./histogram.js";

/** @typedef {import("../types.js").Distribution} Distribution */

/** @param {{distribution: Distribution, series: number, title?: string, onStep?: (step: number) => void}} props */
export function DistributionCard({ distribution, series, title = distribution.name, onStep }) {
  const lines = useMemo(() => [{ label: title, series, points: distribution.by_step }], [distribution]);
  return html`<section class="card distribution">
    <div class="card-head"><h3>${safe(title)}</h3><span class="muted small nowrap">${count(distribution.count)} values</span></div>
    <div class="card-body">
      <dl class="row small numbers"><div><dt>mean</dt><dd>${number(distribution.mean, 3)}</dd></div><div><dt>lowest</dt><dd>${number(distribution.min, 3)}</dd></div><div><dt>highest</dt><dd>${number(distribution.max, 3)}</dd></div></dl>
      <${Histogram} title=${safe(title)} histogram=${distribution.histogram} />
      ${distribution.by_step.length > 1 && html`<${Chart} title="Mean by step" lines=${lines} onStep=${onStep} sync="judge" />`}
    </div>
  </section>`;
}
