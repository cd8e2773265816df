// @ts-check
/** The siblings in columns: heads that stay in view, verdicts, then a row for each turn. */
import { html, classes, useEffect, useMemo, useRef } from "../html.js";
import { count, plural } from "../format.js";
import { Range, useRange } from "../episode/range.js";
import { findExtremes } from "./alignment.js";
import { SiblingHead, SiblingVerdict } from "./sibling_head.js";
import { TurnCell } from "./turn_cell.js";

/** @typedef {import("../types.js").Sibling} Sibling */
/** @typedef {import("./alignment.js").Alignment} Alignment */

/** Rows above the first turn: head, verdict, the line that says where siblings part, the button for earlier turns. */
const ABOVE = 4;

/** @param {{run: string, siblings: Sibling[], alignment: Alignment, focus: number|null, turn: number|null, onFocus: (repeat: number) => void}} props `turn` is a row, from 0 */
export function Board({ run, siblings, alignment, focus, turn, onFocus }) {
  const board = useRef(/** @type {HTMLDivElement|null} */ (null));
  const { best, worst } = useMemo(() => findExtremes(siblings), [siblings]);
  const range = useRange(alignment.rows, turn ?? -1);
  const token = Math.min(...siblings.map((sibling) => sibling.parts_at?.token ?? Infinity));
  const isOnlyAgent = new Set(siblings.flatMap((sibling) => sibling.agents)).size < 2;
  useEffect(() => {
    if (focus !== null) reveal(board.current, document.getElementById(`sibling-${focus}`), "x");
  }, [focus]);
  useEffect(() => {
    if (turn !== null) reveal(board.current, board.current?.querySelector(`[data-row="${turn}"]`) ?? null, "y");
  }, [turn]);
  return html`<div class="board" ref=${board} tabindex="0" role="region" aria-label="Siblings side by side">
    <div class="board-grid" style=${{ gridTemplateColumns: `repeat(${siblings.length}, minmax(var(--sibling), 1fr))` }}>
      ${siblings.map((sibling, at) => html`<${SiblingHead} key=${sibling.id} run=${run} sibling=${sibling} column=${at + 1} isFocused=${sibling.repeat === focus}
        rank=${best.has(at) ? "best" : worst.has(at) ? "worst" : ""} onFocus=${() => onFocus(sibling.repeat)} />`)}
      ${siblings.map((sibling, at) => {
        const same = alignment.sameAs[at];
        return html`<${SiblingVerdict} key=${`verdict ${sibling.id}`} sibling=${sibling} column=${at + 1} sameAs=${same === null ? null : siblings[same].repeat} />`;
      })}
      ${alignment.rows > 0 && siblings.length > 1 && html`<p class="parting"><span>${alignment.shared.length ? `After ${plural(alignment.shared.length, "shared turn")}, the` : "The"} siblings part${Number.isFinite(token) ? ` at token ${count(token)}` : " here"}</span></p>`}
      <${Range} range=${range} side="before" row=${ABOVE} />
      ${Array.from({ length: range.to - range.from }, (_, at) => {
        const row = range.from + at;
        const line = ABOVE + 1 + at;
        return html`<div key=${`row ${row}`} class=${classes("row-line", row === turn && "current")} data-row=${row} style=${{ gridRow: line }}></div>
          ${siblings.map((sibling, column) => {
            const shown = sibling.turns_shown[row + alignment.shared.length];
            if (!shown) return html`<div key=${`${row} ${sibling.id}`} class="turn-cell" style=${{ gridColumn: column + 1, gridRow: line }}></div>`;
            return html`<${TurnCell} key=${`${row} ${sibling.id}`} run=${run} id=${sibling.id} turn=${shown} column=${column + 1} row=${line} isFirst=${row === 0} withMessages=${row > 0 || !alignment.asked?.messages.length}
              isFocused=${sibling.repeat === focus} isOnlyAgent=${isOnlyAgent} />`;
          })}`;
      })}
      <${Range} range=${range} side="after" row=${ABOVE + 1 + range.to - range.from} />
    </div>
  </div>`;
}

/**
 * Scroll the board, and only the board, until an element is in view.
 * @param {HTMLElement|null} board
 * @param {Element|null} element
 * @param {"x"|"y"} axis
 */
function reveal(board, element, axis) {
  if (!board || !element) return;
  const [box, rect] = [board.getBoundingClientRect(), element.getBoundingClientRect()];
  if (axis === "x") {
    if (rect.left < box.left) board.scrollLeft += rect.left - box.left - 8;
    else if (rect.right > box.right) board.scrollLeft += rect.right - box.right + 8;
  } else {
    const head = board.querySelector(".sibling-head")?.getBoundingClientRect().height ?? 0;
    board.scrollTop += rect.top - box.top - head;
    board.scrollIntoView({ block: "nearest" });
  }
}
