// @ts-check
/** Pages of which the index does not know all episodes yet: they say so, and ask again when it has grown. */
import { html, useEffect, useRef } from "../html.js";
import { percent } from "../format.js";
import { currentRun, useLive } from "../live.js";

/** Between two answers while many episodes come. */
const PAUSE_MS = 1000;

/** Return whether episodes of the run are still to be indexed. @param {string} run */
export function isIndexing(run) {
  const row = currentRun.value;
  return row?.id === run && row.indexed !== null && row.indexed < 1;
}

/** What share of the run's store is indexed; nothing once all is. @param {{run: string}} props */
export function IndexedShare({ run }) {
  return isIndexing(run) ? html`<span class="badge warn" role="status">${percent(currentRun.value?.indexed ?? 0, 0)} of the store is indexed</span>` : null;
}

/**
 * Call when the index of the run has grown: at once when a step has ended or all is indexed, else at most once
 * a second.
 * @param {() => void} act
 * @param {unknown[]} inputs
 */
export function useIndexGrowth(act, inputs) {
  const timer = useRef(0);
  const actedAt = useRef(-PAUSE_MS);
  const wait = () => {
    timer.current ||= setTimeout(() => {
      timer.current = 0;
      actedAt.current = performance.now();
      act();
    }, Math.max(0, actedAt.current + PAUSE_MS - performance.now()));
  };
  // The index may learn of a step's episodes after its metrics came.
  useLive({ step: act, episodes: wait, index: (event) => (event.indexed >= 1 ? act() : wait()) }, inputs);
  useEffect(() => () => {
    clearTimeout(timer.current);
    timer.current = 0;
  }, inputs);
}

/**
 * Ask again for the facts of a run when all of it is indexed: only then are its steps and episodes known.
 * @param {import("../types.js").Run|null} run as it was answered
 * @param {() => void} reload
 */
export function useReloadOnceIndexed(run, reload) {
  // A connection begins with how much is indexed: only then is that news if the answer is older.
  const isOld = run !== null && run.indexed !== null && run.indexed < 1;
  useLive({ index: (event) => { if (isOld && event.indexed >= 1) reload(); } }, [run]);
}
