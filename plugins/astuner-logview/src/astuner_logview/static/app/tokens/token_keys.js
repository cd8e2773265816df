// @ts-check
/** The keys of the token page. */
import { useKeys } from "../keys.js";
import { findSegment } from "./blocks.js";
import { worstOf } from "./worst.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("./colouring.js").Colouring} Colouring */
/** @typedef {import("./pane.js").TokenPane} TokenPane */

/** @param {{stream: Stream, colouring: Colouring, current: number, pane: {current: TokenPane|null}, go: (token: number) => void}} props */
export function useTokenKeys({ stream, colouring, current, pane, go }) {
  const step = (/** @type {number} */ by) => go(Math.max(0, Math.min(stream.tokens - 1, current + by)));
  const line = (/** @type {1|-1} */ by) => go(pane.current?.findBeside(current, by) ?? current);
  const segment = (/** @type {number} */ by) => {
    const { segments } = stream;
    const at = findSegment(segments, current);
    // Back goes to the start of this segment first, unless the token is there already.
    const next = by < 0 && current > segments[at].start ? at : at + by;
    if (segments[next]) go(segments[next].start);
  };
  const worst = (/** @type {number} */ by) => {
    const list = worstOf(stream, colouring);
    if (!list.length) return;
    const at = list.findIndex((one) => one.index === current);
    go(list[at < 0 ? 0 : (at + by + list.length) % list.length].index);
  };
  useKeys(
    "Tokens",
    [
      { keys: "ArrowRight", text: "Next token", act: () => step(1) },
      { keys: "ArrowLeft", text: "Previous token", act: () => step(-1) },
      { keys: "ArrowDown", text: "Token on the line below", act: () => line(1) },
      { keys: "ArrowUp", text: "Token on the line above", act: () => line(-1) },
      { keys: "j", text: "Next segment", act: () => segment(1) },
      { keys: "k", text: "Previous segment", act: () => segment(-1) },
      { keys: "n", text: "Next of the most remarkable tokens", act: () => worst(1) },
      { keys: "p", text: "Previous of the most remarkable tokens", act: () => worst(-1) },
      { keys: "Home", text: "First token", act: () => go(0) },
      { keys: "End", text: "Last token", act: () => go(stream.tokens - 1) },
    ],
    [stream, colouring, current],
  );
}
