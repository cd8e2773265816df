// @ts-check
/** A tree of values, such as metadata or observations: names and values, lists and objects folded when large. */
import { html } from "../html.js";
import { number, safe } from "../format.js";
import { LongText } from "./long_text.js";
import { SHORT_TEXT } from "./turn_facts.js";

/** @param {{value: unknown, depth?: number}} props */
export function TreeView({ value, depth = 0 }) {
  if (typeof value === "string") return html`<${LongText} text=${value} css="inline" limit=${SHORT_TEXT} />`;
  if (typeof value === "number") return html`<span>${number(value, 6)}</span>`;
  if (value === null || typeof value !== "object") return html`<span class="muted">${String(value)}</span>`;
  const entries = Object.entries(value);
  if (!entries.length) return html`<span class="muted">${Array.isArray(value) ? "empty list" : "empty"}</span>`;
  const isFlat = entries.length <= 8 && entries.every(([, item]) => item === null || ["number", "boolean"].includes(typeof item));
  if (Array.isArray(value) && isFlat) return html`<span>${value.map((item) => (typeof item === "number" ? number(item, 6) : String(item))).join(", ")}</span>`;
  const list = html`<dl class="facts tree">${entries.slice(0, 200).map(([name, item]) => html`<dt key=${name}>${safe(name)}</dt><dd><${TreeView} value=${item} depth=${depth + 1} /></dd>`)}
    ${entries.length > 200 && html`<dt></dt><dd class="muted">and ${entries.length - 200} more</dd>`}</dl>`;
  if (depth === 0) return list;
  return html`<details class="fold" open=${entries.length <= 6 && depth < 3}><summary><span class="fold-title">${entries.length} ${Array.isArray(value) ? "items" : "keys"}</span></summary><div class="fold-body">${list}</div></details>`;
}
