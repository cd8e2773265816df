// @ts-check
/** Which path of the tree of calls is shown. */
import { html } from "../html.js";
import { count, safe } from "../format.js";
import { setQuery } from "../route.js";

/** @typedef {import("../types.js").Path} Path */

/** @param {{paths: Path[], path: string}} props nothing if there is one path */
export function PathSelect({ paths, path }) {
  if (paths.length < 2) return null;
  return html`<label class="row">Path <select value=${path} onChange=${(/** @type {Event} */ event) => setQuery({ path: /** @type {HTMLSelectElement} */ (event.target).value, at: null, turn: null }, { replace: false })}>
    ${paths.map((one) => html`<option key=${one.leaf} value=${String(one.leaf)} selected=${String(one.leaf) === path}>${describePath(one)}</option>`)}
  </select></label>`;
}

/** @param {Path} path */
export function describePath(path) {
  const calls = path.calls.length > 4 ? `${path.calls.slice(0, 2).join(" → ")} → … → ${path.leaf}` : path.calls.join(" → ");
  const name = path.conversation ? `, ${path.conversation}` : path.main ? "" : ", branch";
  return `${safe(path.agent ?? "agent")}: calls ${calls} (${count(path.tokens)} tokens${name})`;
}
