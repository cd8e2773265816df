// @ts-check
/** The YAML, which may be edited too, what is wrong with it, and what each backbone makes of it. */
import { html, useEffect, useRef, useState } from "../html.js";
import { plain, plural, safe } from "../format.js";
import { CopyButton, saveText } from "../parts/copy.js";
import { Empty, ErrorBox } from "../parts/notices.js";
import { Tabs } from "../parts/tabs.js";

/** @typedef {import("../types.js").Explanation} Explanation */
/** @typedef {import("../types.js").ConfigProblem} ConfigProblem */
/** @typedef {import("../types.js").ApiError} ApiError */

/** @param {{text: string, onText: (text: string) => void, unread: {message: string, line: number}|null, explained: Explanation|null, error: ApiError|null, examples: {title: string, yaml: string}[], waiting: boolean}} props */
export function YamlEditor({ text, onText, unread, explained, error, examples, waiting }) {
  const [before, setBefore] = useState(/** @type {string|null} */ (null));
  const box = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  const rule = useRef(/** @type {HTMLPreElement|null} */ (null));
  const goTo = (/** @type {number} */ line) => {
    const element = box.current;
    if (!element) return;
    const start = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    element.focus();
    element.setSelectionRange(start, start + (text.split("\n")[line - 1] ?? "").length);
    element.scrollTop = Math.max((line - 6) * 20, 0);
  };
  const lines = text.split("\n").length;
  const problems = explained?.problems ?? [];
  const bad = new Set(problems.map((problem) => problem.line));
  return html`<section class="card" aria-labelledby="yaml-title">
    <div class="card-head"><h2 id="yaml-title">YAML</h2><div class="row">
      ${examples.length > 0 && html`<select aria-label="Start from an example" value="" onChange=${(/** @type {Event} */ event) => {
        const example = examples[Number(/** @type {HTMLSelectElement} */ (event.currentTarget).value)];
        if (example) {
          setBefore(text.trim() ? text : null);
          onText(example.yaml);
        }
        /** @type {HTMLSelectElement} */ (event.currentTarget).value = "";
      }}><option value="">Start from…</option>${examples.map((example, at) => html`<option key=${example.title} value=${String(at)}>${safe(example.title)}</option>`)}</select>`}
      ${before !== null && html`<button type="button" onClick=${() => { onText(before); setBefore(null); }}>Undo</button>`}
      <${CopyButton} text=${() => text} /><button type="button" onClick=${() => saveText("tune.yaml", text, "application/yaml")}>Download</button></div></div>
    <div class="yaml-box">
      <pre class="yaml-lines" ref=${rule} aria-hidden="true">${Array.from({ length: lines }, (_, at) => html`<span class=${bad.has(at + 1) ? "bad" : ""}>${at + 1}${"\n"}</span>`)}</pre>
      <textarea ref=${box} aria-label="YAML of the configuration" aria-describedby="yaml-state" spellcheck=${false} autocapitalize="off" wrap="off" value=${text} placeholder="Set keys in the form, or paste a configuration here."
        onInput=${() => onText(box.current?.value ?? "")} onScroll=${() => { if (rule.current) rule.current.scrollTop = box.current?.scrollTop ?? 0; }}></textarea>
    </div>
    <div class="yaml-state" id="yaml-state" role="status" aria-busy=${waiting}>
      ${error ? html`<${ErrorBox} error=${error} />`
        : unread ? html`<p class="warn">The form cannot change this text: ${unread.message} (line <button type="button" class="as-link" onClick=${() => goTo(unread.line + 1)}>${unread.line + 1}</button>). It is checked below all the same.</p>`
        : problems.length ? html`<p class="bad">${plural(problems.length, "problem")}</p>`
        : explained && text.trim() ? html`<p class=${waiting ? "muted" : "good"}>${waiting ? "Checking…" : "Valid"}</p>` : html`<p class="muted">${waiting ? "Checking…" : "Only the keys that you set are written."}</p>`}
      ${problems.length > 0 && html`<ul class="stack">${problems.map((problem, at) => html`<li key=${at}>
        ${problem.line !== null && html`<button type="button" class="as-link" onClick=${() => goTo(problem.line ?? 1)}>line ${problem.line}</button> `}
        ${problem.place && html`<code>${safe(problem.place)}</code> `}${safe(problem.message)} <span class="muted">${safe(problem.remedy)}</span></li>`)}</ul>`}
    </div>
  </section>`;
}

/** Whether the YAML itself sets a key. @param {import("../types.js").ExplainedKey} key */
function isGiven(key) {
  return /:\d+$/.test(key.origin);
}

/** @param {{explained: Explanation|null, backbones: string[], own: string|null}} props `own` is the backbone that the YAML names */
export function BackboneView({ explained, backbones, own }) {
  const [chosen, setChosen] = useState(own ?? backbones[0] ?? "");
  useEffect(() => {
    if (own) setChosen(own);
  }, [own]);
  const [all, setAll] = useState(false);
  const found = explained?.by_backbone[chosen];
  const given = (found?.keys ?? []).filter(isGiven);
  const keys = all ? (found?.keys ?? []) : given;
  const ignored = given.filter((key) => !key.honoured).length;
  return html`<section class="card" aria-labelledby="backbones-title">
    <div class="card-head wrap"><h2 id="backbones-title">What each backbone makes of it</h2>
      <${Tabs} label="Backbones" value=${chosen} onChange=${setChosen} tabs=${backbones.map((name) => ({ value: name, title: name }))} /></div>
    <div role="tabpanel" aria-labelledby=${`tab-${chosen}`}>
      ${!found ? html`<${Empty} title="Nothing to explain yet">Set a key, or paste a configuration.<//>` : html`
        ${found.problems.length > 0 && html`<div class="card-body"><ul class="stack small">${found.problems.map((problem, at) => html`<li key=${at} class="notice warn"><span>${problem.place && html`<code>${safe(problem.place)}</code> `}${safe(problem.message)}</span><p>${safe(problem.remedy)}</p></li>`)}</ul></div>`}
        <div class="row spread pad small"><span class=${ignored ? "warn" : "muted"}>${!given.length ? "No key is set yet" : ignored ? `${safe(chosen)} does not use ${plural(ignored, "key")} that you set` : `${safe(chosen)} uses every key that you set`}</span>
          <label class="switch small"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} />with defaults</label></div>
        ${keys.length > 0 && html`<div class="table-wrap scroll" role="region" aria-label=${`Keys under ${chosen}`} tabindex="0"><table class="grid keys"><caption class="sr-only">Keys under ${chosen}</caption>
          <thead><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">In ${chosen}</th></tr></thead>
          <tbody>${keys.map((key) => html`<tr key=${key.key}>
            <td class="mono" title=${safe(key.origin)}>${safe(key.key.replace(/^astuner\./, ""))}</td><td class="mono">${safe(plain(key.value))}</td>
            <td>${key.honoured ? (key.native.length ? key.native.map((item) => html`<div class="mono" key=${item.key}>${safe(item.key)}: ${safe(plain(item.value))}</div>`) : html`<span class="muted">used</span>`) : html`<span class="badge warn">not used</span>`}
              ${key.note && html`<div class="muted small">${safe(key.note)}</div>`}</td></tr>`)}</tbody></table></div>`}`}
    </div>
  </section>`;
}
