// @ts-check
/** What a turn is in a few words, and what of it is folded. */

/** @typedef {import("../types.js").Message} Message */
/** @typedef {import("../types.js").CallRow} CallRow */

/** Texts longer than this, or of more lines, are cut with a button that shows the rest. */
export const LONG_TEXT = 6000;
export const LONG_LINES = 80;
/** The same for words of a judge or a detector, and for a question. */
export const SHORT_TEXT = 900;

/**
 * Whether a message is folded at first: what is the same in every episode, and what a tool answered at length.
 * @param {Message} message
 */
export function isFolded(message) {
  if (message.role === "system" || message.role === "developer") return true;
  if (message.role === "tool") return message.content.length > 160 || message.content.includes("\n");
  return false;
}

/**
 * Return the first line of a text, for a folded message.
 * @param {string} text
 * @param {number} [limit] characters
 */
export function summarize(text, limit = 120) {
  const line = text.trimStart().split("\n", 1)[0].slice(0, limit + 1);
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

/**
 * Return the length of a text in words, for a folded message: `3 lines` or `214 characters`.
 * @param {string} text
 */
export function describeLength(text) {
  const lines = text.split("\n").length;
  return lines > 1 ? `${lines.toLocaleString("en")} lines` : `${text.length.toLocaleString("en")} characters`;
}

/**
 * Return the role of a message as a label, with the name that a tool or an agent has.
 * @param {Message} message
 * @param {string|null} [agent]
 */
export function nameRole(message, agent) {
  const name = message.name ?? (message.role === "assistant" && agent && agent !== "agent" ? agent : null);
  return name ? `${message.role} · ${name}` : message.role;
}

/**
 * Return what a model wrote as one text, to compare siblings: reasoning, content, calls of tools.
 * @param {Message|null} reply
 */
export function replyText(reply) {
  if (!reply) return "";
  const calls = (reply.tool_calls ?? []).map((call) => `${call.name}(${call.arguments})`);
  return [reply.reasoning ?? "", reply.content, ...calls].filter(Boolean).join("\n");
}
