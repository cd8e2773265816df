// @ts-check
/** From what was sampled to what was learnt from: a bar for each stage, a bar for each loss, each a link to its episodes. */
import { html, useEffect } from "../html.js";
import { count, percent, plural, safe, short } from "../format.js";
import { isIndexing } from "../parts/indexing.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { query, setQuery, to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Waterfall} WaterfallData */

/** @param {{run: string, steps: number[], splits: string[], tick: number}} props `tick` changes when the run has grown */
export function Waterfall({ run, steps, splits, tick }) {
  const step = query("of");
  const split = query("split", "train");
  const answer = /** @type {ReturnType<typeof useAnswer<WaterfallData>>} */ (useAnswer(api(["runs", run, "waterfall"], { step, split: split === "train" ? null : split })));
  useEffect(() => {
    if (tick) answer.reload();
  }, [tick]);
  return html`<section class="card" aria-labelledby="waterfall-title">
    <div class="card-head"><h2 id="waterfall-title">From sampled to learnt</h2>
      <div class="row">
        ${splits.length > 1 && html`<select aria-label="Split" value=${split} onChange=${(/** @type {Event} */ event) => setQuery({ split: value(event) === "train" ? null : value(event), of: null })}>
          ${splits.map((name) => html`<option key=${name} value=${name}>${safe(name)}</option>`)}</select>`}
        <select aria-label="Step" value=${step} onChange=${(/** @type {Event} */ event) => setQuery({ of: value(event) || null })}>
          <option value="">All steps</option>${steps.toReversed().map((item) => html`<option key=${item} value=${item}>Step ${item}</option>`)}
        </select></div></div>
    <div class="card-body"><${Answer} answer=${answer} what="Counting tokens">${(/** @type {WaterfallData} */ data) => html`
      <${Bars} run=${run} data=${data} narrow=${[step && `step:${step}`, split !== "train" && `split:${split}`].filter(Boolean).join(" ")} /><${Problems} problems=${data.problems} />`}<//></div>
  </section>`;
}

/** @param {Event} event */
const value = (event) => /** @type {HTMLSelectElement} */ (event.currentTarget).value;

/** @param {string} text */
const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {{run: string, data: WaterfallData, narrow: string}} props */
function Bars({ run, data, narrow }) {
  const total = data.stages[0]?.count ?? 0;
  if (!total && isIndexing(run)) return html`<${Empty} title="No tokens are counted yet">They are counted as the episodes are indexed.<//>`;
  if (!total) return html`<${Empty} title="No tokens were counted">${data.step === null ? "No stored episode" : "No episode of this step"} has sampled tokens.<//>`;
  const address = (/** @type {string|null} */ filter) => to.episodes(run, { filter: [...new Set(`${narrow} ${filter ?? ""}`.match(/(?:"[^"]*"|[^\s"])+/g) ?? [])].join(" ") });
  return html`<ol class="waterfall">
    ${data.stages.map((stage, at) => {
      const next = data.stages[at + 1]?.count ?? stage.count;
      let end = stage.count;
      return html`<li key=${stage.name}>
        <a class="stage" href=${address(stage.filter)} title=${`Episodes of ${stage.label.toLowerCase()}`}>
          <span class="label">${capitalize(stage.label)}</span>
          <span class="track" aria-hidden="true"><span class=${`bar-fill ${at === data.stages.length - 1 ? "last" : ""}`} style=${{ width: `${(stage.count / total) * 100}%` }}></span></span>
          <span class="amount"><strong title=${`${count(stage.count)} ${stage.unit}`}>${short(stage.count)}</strong> <span class="muted">${percent(stage.count / total)}</span></span>
        </a>
        ${stage.losses.length > 0 && html`<ul>${stage.losses.map((loss) => {
          end -= loss.count;
          const from = Math.max(end, Math.min(next, end), 0);
          return html`<li key=${loss.reason}><a class="loss" href=${address(loss.filter)} title=${`${count(loss.count)} ${stage.unit}; ${loss.reason}`}>
            <span class="label">${capitalize(safe(loss.label))}</span>
            <span class="track" aria-hidden="true"><span class="bar-loss" style=${{ left: `${(from / total) * 100}%`, width: `${(loss.count / total) * 100}%` }}></span></span>
            <span class="amount"><span>−${short(loss.count)}</span> <span class="muted">${loss.episodes === null ? "" : plural(loss.episodes, "episode")}</span></span>
          </a></li>`;
        })}</ul>`}
      </li>`;
    })}
  </ol>`;
}
