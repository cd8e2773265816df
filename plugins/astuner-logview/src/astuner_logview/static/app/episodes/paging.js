// @ts-check
/** The rows of a filtered list, fetched page by page as they come into view. */
import { useCallback, useEffect, useRef, useState } from "../html.js";
import { api, describe, get } from "../source.js";

/** @typedef {import("../types.js").Episodes} Episodes */
/** @typedef {import("../types.js").EpisodeRow} EpisodeRow */
/** @typedef {import("../types.js").ApiError} ApiError */
/** @typedef {{key: string, rows: EpisodeRow[], total: number|null, next: string|null, indexed: number|null, problems: string[], error: ApiError|null}} State */

/** Rows of a page. */
export const PAGE = 100;
const EMPTY = /** @type {State} */ ({ key: "", rows: [], total: null, next: null, indexed: null, problems: [], error: null });

/**
 * Use the episodes that a filter lists. `need(index)` fetches until that row is there.
 * @param {string} run @param {string} filter @param {string} sort @param {"asc"|"desc"} order
 */
export function usePages(run, filter, sort, order) {
  const key = JSON.stringify([run, filter, sort, order]);
  const [state, setState] = useState(EMPTY);
  const [turn, setTurn] = useState(0);
  const [loading, setLoading] = useState(false);
  const wanted = useRef(0);
  const stop = useRef(new AbortController());
  const now = useRef(state);
  now.current = state;

  const load = useCallback(async (/** @type {string|null} */ after, /** @type {boolean} */ fresh) => {
    const { signal } = stop.current;
    setLoading(true);
    try {
      const address = api(["runs", run, "episodes"], { filter, sort, order, limit: PAGE, after });
      const answer = /** @type {Episodes} */ (await get(address, { signal, fresh }));
      if (signal.aborted) return;
      setState((old) => ({
        key, total: answer.total, next: answer.next, indexed: answer.indexed, problems: answer.problems ?? [], error: null,
        rows: after === null ? answer.episodes : [...old.rows, ...answer.episodes],
      }));
    } catch (problem) {
      if (!signal.aborted) setState((old) => ({ ...old, key, error: describe(problem) }));
    }
    if (!signal.aborted) setLoading(false);
  }, [key]);

  useEffect(() => {
    stop.current = new AbortController();
    wanted.current = 0;
    load(null, turn > 0);
    return () => stop.current.abort();
  }, [key, turn]);
  useEffect(() => {
    if (!loading && state.key === key && state.next !== null && !state.error && wanted.current >= state.rows.length) load(state.next, false);
  }, [state, loading]);
  const need = useCallback((/** @type {number} */ index) => {
    wanted.current = index;
    const { next, rows, key: of, error } = now.current;
    if (of === key && next !== null && !error && index >= rows.length) setState((old) => ({ ...old }));
  }, [key]);
  const reload = useCallback(() => setTurn((old) => old + 1), []);
  return { rows: state.rows, total: state.total, indexed: state.indexed, problems: state.problems, error: state.error, loading, need, reload };
}
