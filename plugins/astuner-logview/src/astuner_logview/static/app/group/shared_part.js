// @ts-check
/** What all siblings share: the task, and the turns before they part. */
import { html } from "../html.js";
import { plural } from "../format.js";
import { LongText } from "../episode/long_text.js";
import { MessageView } from "../episode/message.js";
import { SHORT_TEXT } from "../episode/turn_facts.js";
import { TreeView } from "../episode/tree_view.js";
import { addressWhole } from "../episode/whole_message.js";

/** @typedef {import("../types.js").Group} Group */
/** @typedef {import("./alignment.js").Alignment} Alignment */

/** @param {{run: string, group: Group, alignment: Alignment}} props */
export function SharedPart({ run, group, alignment: { of, shared, asked: askedTurn } }) {
  const whole = (/** @type {number} */ call, /** @type {import("../types.js").Message} */ message, /** @type {number|null} */ place) =>
    of === null ? null : addressWhole(run, of, call, message, place);
  const asked = askedTurn?.messages ?? [];
  const hasMetadata = group.metadata && Object.keys(group.metadata).length > 0;
  const messages = shared.length || asked.length ? [] : group.messages;
  const told = shared.length ? plural(shared.length, "shared turn") : plural(messages.length + asked.length, "shared message");
  return html`<section class="card shared-part" aria-label="What all siblings share">
    ${group.query && html`<div class="shared-query"><${LongText} text=${group.query} limit=${SHORT_TEXT} /></div>`}
    ${(shared.length > 0 || messages.length + asked.length > 0) && html`<details class="fold"><summary><span class="fold-title">${told}</span><span class="muted truncate">${describeCommon(group, shared.length)}</span></summary>
      <div class="shared-turns">
        ${messages.map((message, at) => html`<${MessageView} key=${at} message=${message} />`)}
        ${shared.map((turn, at) => html`<div key=${at} class="turn">
          ${turn.messages.map((message, index) => html`<${MessageView} key=${index} message=${message} whole=${whole(turn.call, message, index)} />`)}
          ${turn.reply && html`<${MessageView} message=${turn.reply} agent=${turn.agent} whole=${whole(turn.call, turn.reply, null)} isReply=${true} />`}
        </div>`)}
        ${askedTurn && asked.map((message, at) => html`<${MessageView} key=${`asked ${at}`} message=${message} whole=${whole(askedTurn.call, message, at)} />`)}
      </div></details>`}
    ${hasMetadata && html`<details class="fold"><summary><span class="fold-title">Metadata</span><span class="muted truncate">${Object.keys(group.metadata ?? {}).join(", ")}</span></summary><div class="fold-body"><${TreeView} value=${group.metadata} /></div></details>`}
  </section>`;
}

/** @param {Group} group @param {number} turns */
function describeCommon(group, turns) {
  const tokens = group.common?.tokens;
  const part = tokens ? `the first ${plural(tokens, "token")} are the same in all` : "";
  return turns ? part || "before the siblings part" : part;
}
