// @ts-check
/** The tree of an episode's calls: a node a call, filled if it was trained; a click shows a path through it. */
import { html, classes, useMemo } from "../html.js";
import { count, plural, safe } from "../format.js";
import { layOutCalls } from "./call_tree.js";

/** @typedef {import("../types.js").CallRow} CallRow */
/** @typedef {import("../types.js").Path} Path */

const ACROSS = 46;
const DOWN = 34;
const EDGE = 20;
const RADIUS = 9;
/** Pixels and characters of the names in front of the roots. */
const WIDEST = 170;
const LONGEST_NAME = 22;
/** Calls beyond this are not drawn: the drawing would say nothing. */
const MOST = 600;

/** @param {{calls: CallRow[], path: Path|undefined, turn: number|null, onCall: (call: number) => void}} props */
export function CallTree({ calls, path, turn, onCall }) {
  const shown = calls.slice(0, MOST);
  const layout = useMemo(() => layOutCalls(shown), [calls]);
  const byIndex = useMemo(() => new Map(shown.map((call) => [call.index, call])), [calls]);
  const onPath = new Set(path?.calls ?? []);
  const hasAgents = new Set(calls.map((call) => call.agent ?? "agent")).size > 1;
  const names = new Map(layout.nodes.filter((node) => node.depth === 0).map((node) => [node.call, nameRoot(byIndex.get(node.call), hasAgents)]));
  const label = Math.min(WIDEST, Math.max(0, ...[...names.values()].map((name) => (name ? 16 + 7 * name.length : 0))));
  const x = (/** @type {number} */ depth) => EDGE + label + depth * ACROSS;
  const y = (/** @type {number} */ row) => EDGE + row * DOWN;
  const width = x(layout.depth - 1) + EDGE;
  const height = y(layout.rows - 1) + EDGE;
  return html`<figure class="call-tree">
    <div class="tree-scroll" tabindex="0" role="group" aria-label="Tree of calls">
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="tree" aria-label=${`${plural(calls.length, "call")} in ${plural(layout.rows, "branch", "branches")}`}>
        ${layout.edges.map(({ from, to }) => {
          const middle = (x(from.depth) + x(to.depth)) / 2;
          const line = `M${x(from.depth)} ${y(from.row)}C${middle} ${y(from.row)} ${middle} ${y(to.row)} ${x(to.depth)} ${y(to.row)}`;
          return html`<path key=${to.call} class=${classes("edge", onPath.has(from.call) && onPath.has(to.call) && "on")} d=${line} />`;
        })}
        ${label > 0 && layout.nodes.filter((node) => node.depth === 0).map((node) => html`<text key=${`root-${node.call}`} class="tree-agent" x="0" y=${y(node.row) + 4}>${safe(names.get(node.call) ?? "").slice(0, LONGEST_NAME)}</text>`)}
        ${layout.nodes.map((node) => html`<${TreeNode} key=${node.call} call=${byIndex.get(node.call)} x=${x(node.depth)} y=${y(node.row)}
          isOn=${onPath.has(node.call)} isCurrent=${turn === node.call} onCall=${onCall} />`)}
      </svg>
    </div>
    <figcaption class="legend">
      <span><i class="node-sample trained"></i>trained</span><span><i class="node-sample"></i>not trained</span><span><i class="node-sample on"></i>the chosen path</span>
      ${calls.length > MOST && html`<span>the first ${count(MOST)} of ${count(calls.length)} calls</span>`}
    </figcaption>
  </figure>`;
}

/**
 * Return what stands in front of the first call of a conversation.
 * @param {CallRow|undefined} call
 * @param {boolean} hasAgents whether there are several
 */
function nameRoot(call, hasAgents) {
  const agent = hasAgents ? call?.agent ?? "agent" : "";
  return [agent, call?.conversation ?? ""].filter(Boolean).join(": ");
}

/** @param {{call: CallRow|undefined, x: number, y: number, isOn: boolean, isCurrent: boolean, onCall: (call: number) => void}} props */
function TreeNode({ call, x, y, isOn, isCurrent, onCall }) {
  if (!call) return null;
  const { index, trained_tokens: trained, untrained, output_tokens: output } = call;
  const text = `Call ${index}${call.agent ? ` of ${safe(call.agent)}` : ""}${call.conversation ? `, ${safe(call.conversation)}` : ""}: ${count(output)} tokens sampled, ${trained ? `${count(trained)} trained` : `none trained${untrained ? ` (${safe(untrained)})` : ""}`}`;
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onCall(index);
  };
  return html`<g class=${classes("node", trained > 0 && "trained", isOn && "on", isCurrent && "current")} role="treeitem" tabindex="0" aria-label=${text} aria-selected=${isOn ? "true" : "false"}
    transform=${`translate(${x} ${y})`} onClick=${() => onCall(index)} onKeyDown=${press}>
    <title>${text}</title><circle r=${RADIUS} /><text y="3.5" aria-hidden="true">${index}</text>
  </g>`;
}
