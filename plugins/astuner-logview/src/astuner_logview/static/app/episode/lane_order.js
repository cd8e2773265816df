// @ts-check
/** Several agents on one order of calls: a row for each call, a column for each agent. */

/** @typedef {import("../types.js").Episode} Episode */
/** @typedef {Episode["lanes"][number]} Lane */
/** @typedef {{call: number, lane: number}} LaneRow */

/**
 * Return the calls of all lanes in the order in which they were made.
 * @param {Lane[]} lanes
 * @returns {LaneRow[]}
 */
export function orderCalls(lanes) {
  return lanes
    .flatMap((lane, index) => lane.calls.map((call) => ({ call, lane: index })))
    .sort((one, other) => one.call - other.call);
}
