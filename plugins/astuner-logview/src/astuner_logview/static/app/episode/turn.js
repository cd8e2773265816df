// @ts-check
/** A turn: what the request added, what the model answered, and the facts of the call. */
import { html, classes } from "../html.js";
import { count, duration, number, safe } from "../format.js";
import { Badge } from "../parts/badge.js";
import { to } from "../route.js";
import { FindingView } from "./finding.js";
import { MessageView } from "./message.js";
import { addressWhole } from "./whole_message.js";

/** @typedef {import("../types.js").CallRow} CallRow */
/** @typedef {import("../types.js").Episode} Episode */

/** @param {{run: string, id: string, call: CallRow, findings: Episode["findings"], leaf: number, isCurrent: boolean, showAgent: boolean}} props */
export function TurnView({ run, id, call, findings, leaf, isCurrent, showAgent }) {
  const { turn, index } = call;
  return html`<article class=${classes("turn", isCurrent && "current")} id=${`turn-${index}`} aria-label=${`Turn ${index}${call.agent ? ` of ${safe(call.agent)}` : ""}`} tabindex="-1">
    ${turn.messages.map((message, at) => html`<${MessageView} key=${at} message=${message} whole=${addressWhole(run, id, index, message, at)} />`)}
    ${turn.reply
      ? html`<${MessageView} message=${turn.reply} agent=${showAgent ? call.agent : null} whole=${addressWhole(run, id, index, turn.reply, null)} isReply=${true} />`
      : html`<p class="notice warn">The model gave no answer${call.untrained ? `: ${safe(call.untrained)}` : ""}.</p>`}
    ${findings.map((finding, at) => html`<${FindingView} key=${at} finding=${finding} />`)}
    <${CallFacts} run=${run} id=${id} call=${call} leaf=${leaf} />
  </article>`;
}

/** @param {{run: string, id: string, call: CallRow, leaf: number}} props */
function CallFacts({ run, id, call, leaf }) {
  const { index, finish_reason: end } = call;
  const weights = [...new Set(call.weights.map(([, version]) => version))];
  return html`<footer class="call-facts">
    <span>call ${index}</span>
    ${call.conversation && html`<${Badge} title="The conversation or branch that begins with this call">${safe(call.conversation)}<//>`}
    <span title=${`${count(call.prompt_tokens)} tokens of the prompt, ${count(call.output_tokens)} sampled`}>${count(call.prompt_tokens)} → ${count(call.output_tokens)} tokens</span>
    ${call.untrained
      ? html`<${Badge} tone="warn" title="Why no token of this call is trained">not trained: ${safe(call.untrained)}<//>`
      : html`<${Badge} tone=${call.trained_tokens ? "accent" : ""}>${call.trained_tokens ? `${count(call.trained_tokens)} trained` : "none trained"}<//>`}
    ${end && (end === "stop" || end === "tool_calls" ? html`<span>${safe(end)}</span>` : html`<${Badge} tone="warn" title="Why the answer ended">${end === "length" ? "cut off at the length limit" : safe(end)}<//>`)}
    ${call.mean_logprob !== null && html`<span title="Mean log-probability of the sampled tokens">${number(call.mean_logprob, 3)} nats a token</span>`}
    ${call.latency_s !== null && html`<span>${duration(call.latency_s)}</span>`}
    ${call.temperature !== null && html`<span title="Temperature">T ${number(call.temperature, 3)}</span>`}
    ${weights.length > 0 && html`<span title="Steps of the weights that sampled it">weights ${weights.join(", ")}</span>`}
    <a href=${to.tokens(run, id, { path: leaf, at: call.prompt_tokens })}>Tokens</a>
  </footer>`;
}
