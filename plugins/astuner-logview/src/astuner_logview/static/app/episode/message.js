// @ts-check
/** One message: who speaks, the text, reasoning and tools folded. */
import { html, classes } from "../html.js";
import { safe } from "../format.js";
import { indentJson } from "../text/arguments.js";
import { LongText } from "./long_text.js";
import { ToolCallView, ToolList } from "./tool_call.js";
import { describeLength, isFolded, nameRole, summarize } from "./turn_facts.js";
import { useWhole } from "./whole_message.js";

/** @typedef {import("../types.js").Message} Message */

/**
 * @param {{message: Message, agent?: string|null, whole?: string|null, shared?: import("../types.js").SharedReply|null, isReply?: boolean, note?: any, limit?: number}} props
 *   `whole` is the address of a message that was cut; `shared` is how much of what the model wrote is the same in all siblings
 */
export function MessageView({ message: given, agent = null, whole = null, shared = null, isReply = false, note = null, limit }) {
  const { message, isWhole, rest } = useWhole(given, whole);
  const { role, content, reasoning, tool_calls: calls = [], tools = [], cut } = message;
  const isTool = role === "tool";
  const text = isTool ? indentJson(content) : content;
  const body = html`<${LongText} text=${text} rest=${rest(cut?.content)} css=${isTool ? "mono" : ""} shared=${shared?.content} limit=${limit} />`;
  return html`<div class=${classes("message", `role-${roleClass(role)}`, isReply && "reply")}>
    <p class="role">${safe(nameRole(message, agent))}</p>
    <div class="message-body">
      ${tools.length > 0 && html`<${ToolList} tools=${tools} />`}
      ${reasoning && html`<details class="fold reasoning"><summary><span class="fold-title">Reasoning</span><span class="muted truncate">${safe(summarize(reasoning))}</span></summary>
        <div class="fold-body"><${LongText} text=${reasoning} rest=${rest(cut?.reasoning)} shared=${shared?.reasoning} /></div></details>`}
      ${content !== "" && (isFolded(message)
        ? html`<details class="fold"><summary><span class="fold-title">${describeLength(content)}</span><span class=${classes("muted truncate", isTool && "mono")}>${safe(summarize(content))}</span></summary><div class="fold-body">${body}</div></details>`
        : body)}
      ${calls.map((call, at) => html`<${ToolCallView} key=${at} call=${call} rest=${rest(cut?.arguments[at])} isWhole=${isWhole} />`)}
      ${content === "" && !calls.length && !reasoning && html`<p class="muted small">(empty)</p>`}
      ${note}
    </div>
  </div>`;
}

/** @param {string} role */
function roleClass(role) {
  return ["system", "user", "assistant", "tool", "developer"].includes(role) ? role : "other";
}
