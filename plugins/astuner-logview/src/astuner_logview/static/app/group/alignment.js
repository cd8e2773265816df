// @ts-check
/** Where siblings part: the turns that all share, then one row a turn. */
import { replyText } from "../episode/turn_facts.js";

/** @typedef {import("../types.js").Sibling} Sibling */
/** @typedef {import("../types.js").Turn} Turn */
/**
 * @typedef {object} Alignment
 * @property {string|null} of the episode whose turns stand for all in what follows
 * @property {Turn[]} shared turns that are the same in all siblings
 * @property {Turn|null} asked the turn after them, if all siblings were asked the same in it and only answered differently
 * @property {number} rows turns after the shared ones, of the longest sibling
 * @property {(number|null)[]} sameAs by sibling, the first sibling that said just the same
 */

/**
 * Align siblings. A failed sibling without turns does not count: it shares nothing and says nothing.
 * @param {Pick<Sibling, "id"|"turns_shown">[]} siblings
 * @returns {Alignment}
 */
export function alignSiblings(siblings) {
  const told = siblings.filter((sibling) => sibling.turns_shown.length);
  const keys = new Map(told.map((sibling) => [sibling, sibling.turns_shown.map(turnKey)]));
  let shared = 0;
  const first = told.length > 1 ? keys.get(told[0]) ?? [] : [];
  while (shared < first.length && told.every((sibling) => keys.get(sibling)?.[shared] === first[shared])) shared += 1;
  // All the same to the end: the last turn is kept in the columns, or there would be nothing to see.
  if (told.length && shared > 0 && told.every((sibling) => sibling.turns_shown.length <= shared)) shared -= 1;

  const asked = new Set(told.map((sibling) => (sibling.turns_shown[shared] ? messagesKey(sibling.turns_shown[shared]) : "")));
  const texts = siblings.map((sibling) => (sibling.turns_shown.length ? (keys.get(sibling) ?? sibling.turns_shown.map(turnKey)).join("\u0000") : null));
  return {
    of: told[0]?.id ?? null,
    shared: told.length ? told[0].turns_shown.slice(0, shared) : [],
    asked: told.length > 1 && asked.size === 1 ? told[0].turns_shown[shared] ?? null : null,
    rows: siblings.reduce((most, sibling) => Math.max(most, sibling.turns_shown.length - shared), 0),
    sameAs: texts.map((text, index) => {
      const before = text === null ? index : texts.indexOf(text);
      return before < index ? before : null;
    }),
  };
}

/** @param {Turn} turn */
function turnKey(turn) {
  return JSON.stringify([turn.agent, messagesKey(turn), replyText(turn.reply), turn.reply?.cut?.digest]);
}

/** @param {Turn} turn */
function messagesKey(turn) {
  return JSON.stringify(turn.messages.map((message) => [message.role, message.content, message.cut?.digest]));
}

/**
 * Return the indexes of the best and the worst siblings, by reward; none if all rewards are equal, or if most share them.
 * @param {Pick<Sibling, "reward">[]} siblings
 * @returns {{best: Set<number>, worst: Set<number>}}
 */
export function findExtremes(siblings) {
  const rewards = siblings.map((sibling) => sibling.reward);
  const known = rewards.filter((reward) => reward !== null);
  const high = Math.max(...known);
  const low = Math.min(...known);
  /** @param {number} value */
  const at = (value) => {
    const found = rewards.flatMap((reward, index) => (reward === value ? [index] : []));
    return new Set(known.length && low < high && found.length <= rewards.length / 2 ? found : []);
  };
  return { best: at(high), worst: at(low) };
}
