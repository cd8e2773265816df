// @ts-check
/** A message of which an answer holds only the start: the whole of it, when the reader asks. */
import { useState } from "../html.js";
import { api, describe, get } from "../source.js";

/** @typedef {import("../types.js").Message} Message */
/**
 * @typedef {object} Rest what an answer left out of a text
 * @property {number} left characters
 * @property {(() => void)|null} load gets them; null if they cannot be had
 * @property {string} problem why they have not come
 */

/**
 * Return the address of a whole message of an episode; null for a message that was not cut.
 * @param {string} run
 * @param {string} id of the episode
 * @param {number} call
 * @param {Message} message
 * @param {number|null} place among the messages that the call added; null for its reply
 */
export function addressWhole(run, id, call, message, place) {
  return message.cut ? api(["runs", run, "text"], { id, call, part: place === null ? "reply" : "messages", message: place }) : null;
}

/**
 * Use a message: what the answer holds of it, and all of it once `load` was called.
 * @param {Message} message
 * @param {string|null} address of the whole
 * @returns {{message: Message, isWhole: boolean, rest: (left: number|undefined) => Rest|null}} `rest` makes that of one of its texts
 */
export function useWhole(message, address) {
  const [state, setState] = useState(/** @type {{address: string|null, found: Partial<Message>|null, problem: string}} */ ({ address: null, found: null, problem: "" }));
  // What came for another message is not of this one.
  const { found, problem } = state.address === address ? state : { found: null, problem: "" };
  const load = address === null ? null : () => {
    get(address).then(
      (answer) => {
        const { text, reasoning, tool_calls } = /** @type {{text: string, reasoning: string|null, tool_calls: Message["tool_calls"]}} */ (answer);
        setState({ address, found: { content: text, reasoning, tool_calls }, problem: "" });
      },
      (reason) => setState({ address, found: null, problem: describe(reason).error }),
    );
  };
  return {
    message: found ? { ...message, ...found } : message,
    isWhole: found !== null,
    rest: (left) => (left && !found ? { left, load, problem } : null),
  };
}
