// @ts-check
/** A run's configuration: as it was given, and as it was resolved with every default. */
import { html, useMemo } from "../html.js";
import { plain, safe } from "../format.js";
import { CopyButton, saveText } from "../parts/copy.js";
import { FilterBox } from "../parts/filter.js";
import { Empty } from "../parts/notices.js";
import { Tabs } from "../parts/tabs.js";
import { Text } from "../parts/text.js";
import { query, setQuery } from "../route.js";

/** @typedef {import("../types.js").Run} Run */

/** @param {{run: Run}} props */
export function RunConfiguration({ run }) {
  const shown = query("as", run.config.given ? "given" : "resolved");
  const given = run.config.given;
  return html`<section class="card" aria-labelledby="configuration-title">
    <div class="card-head"><h2 id="configuration-title" class="sr-only">Configuration</h2>
      <${Tabs} label="Configuration" value=${shown} onChange=${(/** @type {string} */ as) => setQuery({ as })} tabs=${[{ value: "given", title: "As given" }, { value: "resolved", title: "Resolved" }]} />
      ${shown === "given" && given && html`<div class="row"><${CopyButton} text=${given} /><button type="button" onClick=${() => saveText(`${run.name}.yaml`, given, "application/yaml")}>Download</button></div>`}
    </div>
    <div class="card-body" role="tabpanel" aria-labelledby=${`tab-${shown}`}>
      ${shown === "given" ? (given ? html`<pre class="code tall"><${Text} text=${given} /></pre>` : html`<${Empty} title="The file that was given is not in the run directory" />`) : html`<${Resolved} tree=${run.config.resolved} />`}
    </div>
  </section>`;
}

/** @param {{tree: Record<string, unknown>|null}} props */
function Resolved({ tree }) {
  const keys = useMemo(() => flatten(tree ?? {}), [tree]);
  if (!keys.length) return html`<${Empty} title="The resolved configuration is not in the run directory" />`;
  const words = query("key").toLowerCase().split(/\s+/).filter(Boolean);
  const found = keys.filter(([key, value]) => words.every((word) => key.toLowerCase().includes(word) || plain(value).toLowerCase().includes(word)));
  return html`<div class="stack">
    <${FilterBox} label="Search keys" placeholder="Search keys and values" complete=${false} value=${query("key")} onChange=${(/** @type {string} */ key) => setQuery({ key })} />
    <div class="table-wrap boxed" role="region" aria-label="Resolved configuration" tabindex="0"><table class="grid keys"><caption class="sr-only">Resolved configuration</caption>
      <thead><tr><th scope="col">Key</th><th scope="col">Value</th></tr></thead>
      <tbody>${found.map(([key, value]) => html`<tr key=${key}><td class="mono">${safe(key)}</td><td class="mono">${value === null ? html`<span class="faint">null</span>` : html`<${Text} text=${plain(value)} />`}</td></tr>`)}</tbody>
    </table></div></div>`;
}

/** Return leaves of a tree by their dotted keys; lists are leaves. @param {unknown} tree @param {string} [path] @returns {[string, unknown][]} */
export function flatten(tree, path = "") {
  if (tree === null || typeof tree !== "object" || Array.isArray(tree) || (path && !Object.keys(tree).length)) return [[path, tree]];
  return Object.entries(tree).flatMap(([key, value]) => flatten(value, path ? `${path}.${key}` : key));
}
