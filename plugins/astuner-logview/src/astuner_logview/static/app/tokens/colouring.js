// @ts-check
/** The class of a token under the colouring that the reader chose. */
import { makeScale } from "./scale.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("../types.js").Tokens} Tokens */
/** @typedef {import("../types.js").Measure} Measure */
/** @typedef {import("./scale.js").Scale} Scale */
/** @typedef {{className: string, label: string}} Category */
/**
 * @typedef {object} Colouring
 * @property {string} name in the address
 * @property {string} label
 * @property {string} meaning
 * @property {Measure|null} measure
 * @property {Scale|null} scale null if the colours are categories
 * @property {Category[]} categories
 * @property {(chunk: Tokens, at: number) => string} classOf of the token at an index of the chunk
 */

/** Whether tokens were trained is a colouring like the measures, though no measure. */
export const TRAINED = "trained";
const REASON_COLOURS = 6;
const CLIPPED = ["", "clipped at the low end", "clipped at the high end", "clipped by the dual bound"];

/**
 * Return the colourings of a stream: trained or not, then what was recorded.
 * @param {Stream} stream
 * @returns {Colouring[]}
 */
export function listColourings(stream) {
  return [makeTrained(stream), ...stream.measures.filter((measure) => measure.recorded).map(makeMeasured)];
}

/**
 * Return the colouring of the address, else the first of `logprob`, and trained.
 * @param {Colouring[]} colourings
 * @param {string} name
 */
export function chooseColouring(colourings, name) {
  return colourings.find((one) => one.name === name) ?? colourings.find((one) => one.name === "logprob") ?? colourings[0];
}

/** @param {Stream} stream @returns {Colouring} */
function makeTrained(stream) {
  const reasons = [...new Set(stream.segments.flatMap((segment) => (segment.reason ? [segment.reason] : [])))];
  /** @param {string} reason */
  const classOfReason = (reason) => {
    const at = reasons.indexOf(reason);
    return at < 0 ? "untrained" : `r${(at % REASON_COLOURS) + 1}`;
  };
  return {
    name: TRAINED,
    label: "trained, or why not",
    meaning: "Sampled tokens that were trained, and the reason of each that was not. Prompt tokens have no colour.",
    measure: null,
    scale: null,
    categories: [{ className: "trained", label: "trained" }, ...reasons.map((reason) => ({ className: classOfReason(reason), label: reason }))],
    classOf(chunk, at) {
      if (chunk.trained[at]) return "trained";
      if (chunk.reasons[at] !== undefined) return classOfReason(chunk.reasons[at]);
      return chunk.kinds[at] ? "untrained" : "none";
    },
  };
}

/** @param {Measure} measure @returns {Colouring} */
function makeMeasured(measure) {
  const { name, label, meaning } = measure;
  if (name === "clipped") {
    return {
      name, label, meaning, measure, scale: null,
      categories: [{ className: "c0", label: "not clipped" }, ...CLIPPED.slice(1).map((text, at) => ({ className: `c${at + 1}`, label: text }))],
      classOf: (chunk, at) => (chunk.clipped?.[at] == null ? "none" : `c${chunk.clipped[at]}`),
    };
  }
  const scale = makeScale(measure);
  return { name, label, meaning, measure, scale, categories: [], classOf: (chunk, at) => scale.classOf(chunk.values[name]?.[at]) };
}

/**
 * Return what a code of `clipped` means.
 * @param {number|null|undefined} code
 */
export function describeClipped(code) {
  if (code === null || code === undefined) return null;
  return code === 0 ? "no" : CLIPPED[code];
}
