// @ts-check
/** Files to keep or to send: the page as one HTML file, or Markdown for an issue. */
import { html, useState } from "../html.js";
import { copyText } from "../parts/copy.js";
import { api, isExported } from "../source.js";

/** @param {{kind: "group"|"episode", run: string, values: Record<string, string|number>}} props nothing in a file that was shared */
export function ShareMenu({ kind, run, values }) {
  const [said, setSaid] = useState("");
  if (isExported()) return null;
  const address = (/** @type {string} */ type) => api(["export", `${kind}.${type}`], { run, ...values });
  const copy = async () => {
    const response = await fetch(address("md"), { credentials: "same-origin" }).catch(() => null);
    const worked = response?.ok && (await copyText(await response.text()));
    setSaid(worked ? "Copied" : "Not copied");
    setTimeout(() => setSaid(""), 1600);
  };
  return html`<details class="menu"><summary class="button" role="button">Share</summary>
    <div class="menu-items">
      <a href=${address("html")} download>HTML file <span class="muted small">opens offline, with all tokens</span></a>
      <a href=${address("md")} download>Markdown file</a>
      <button type="button" onClick=${copy}><span aria-live="polite">${said || "Copy as Markdown"}</span></button>
    </div>
  </details>`;
}
