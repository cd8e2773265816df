// @ts-check
/** A tool call as the model wrote it, readable: its arguments by name, code as code. */
import { html } from "../html.js";
import { safe } from "../format.js";
import { readArguments } from "../text/arguments.js";
import { LongText } from "./long_text.js";

/** @typedef {import("../types.js").ToolCall} ToolCall */

const INLINE = 64;

/** @param {{call: ToolCall, rest: import("./whole_message.js").Rest|null, isWhole: boolean}} props `isWhole` if the reader has asked for all of it */
export function ToolCallView({ call, rest, isWhole }) {
  const found = readArguments(call.arguments);
  const isShort = found !== null && found.every((one) => one.value.length <= INLINE && !one.value.includes("\n")) && found.length <= 3;
  return html`<div class="tool-call">
    <p class="tool-name"><span class="glyph" aria-hidden="true">ƒ</span><span class="sr-only">calls </span><code>${safe(call.name)}</code>${isShort &&
    html`<code class="inline-arguments">(${found.map((one, at) => html`${at > 0 && ", "}<span class="argument">${safe(one.name)}=</span>${safe(one.isText ? JSON.stringify(one.value) : one.value)}`)})</code>`}</p>
    ${found === null && html`<div class="arguments broken"><${LongText} text=${call.arguments || "(no arguments)"} rest=${rest} css="mono" />${!rest && html`<p class="small warn">The arguments are not a JSON object.</p>`}</div>`}
    ${found !== null && !isShort && html`<dl class="arguments">${found.map((one) => html`<dt key=${one.name}>${safe(one.name)}</dt><dd><${LongText} text=${one.value} css="mono" limit=${isWhole ? Infinity : undefined} /></dd>`)}</dl>`}
  </div>`;
}

/** The tools that a request offered, folded. @param {{tools: import("../types.js").Tree[]}} props */
export function ToolList({ tools }) {
  return html`<details class="fold"><summary><span class="fold-title">${tools.length === 1 ? "1 tool" : `${tools.length} tools`}</span><span class="muted truncate">${tools.map((tool) => safe(nameTool(tool))).join(", ")}</span></summary>
    <div class="fold-body"><${LongText} text=${JSON.stringify(tools, null, 2)} css="mono" /></div>
  </details>`;
}

/** @param {import("../types.js").Tree} tool */
function nameTool(tool) {
  const inner = tool.function;
  const name = inner !== null && typeof inner === "object" && "name" in inner ? inner.name : tool.name;
  return typeof name === "string" ? name : "?";
}
