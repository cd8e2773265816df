// @ts-check
/** Episodes of a run that a filter lists: sorted, drawn as far as one scrolls, walked through by keyboard. */
import { html, useCallback, useEffect, useRef, useState } from "../html.js";
import { count, percent, plural } from "../format.js";
import { useKeys } from "../keys.js";
import { announcement, currentRun, useLive } from "../live.js";
import { EpisodeHead, EpisodeLine, ROW_HEIGHT } from "../episodes/line.js";
import { PAGE, usePages } from "../episodes/paging.js";
import { FilterBox, toggleTerm } from "../parts/filter.js";
import { Empty, ErrorBox, Loading, Problems } from "../parts/notices.js";
import { VirtualRows } from "../parts/virtual.js";
import { navigate, query, setQuery, to } from "../route.js";

const EXAMPLES = ["failed", "reward<0.5", "success:no", "trained:0", "finding:any", "judge:failed", "split:validation"];

// Coming back from an episode, one is at the same row again.
/** @type {Map<string, number>} */
const places = new Map();

/** @param {{run: string}} props */
export default function EpisodesPage({ run }) {
  const filter = query("filter");
  const sort = query("sort", "step");
  const order = query("order") === "asc" ? "asc" : "desc";
  const list = usePages(run, filter, sort, order);
  const key = JSON.stringify([run, filter, sort, order]);
  const [at, setAt] = useState(places.get(key) ?? -1);
  const [added, setAdded] = useState(0);
  useEffect(() => {
    setAt(places.get(key) ?? -1);
    setAdded(0);
  }, [key]);
  useEffect(() => {
    places.set(key, at);
  }, [at]);
  const here = useRef(at);
  here.current = at;
  const shown = useRef(0);
  shown.current = list.rows.length;
  const [indexed, setIndexed] = useState(/** @type {number|null} */ (null));
  useLive({
    episodes: (event) => {
      announcement.value = plural(event.added, "new episode");
      // Rows do not move under a reader who has begun to walk through them.
      if (here.current < 0 && window.scrollY < 200) list.reload();
      else setAdded((old) => old + event.added);
    },
    index: (event) => {
      setIndexed(event.indexed);
      // While the first page is not full, what is indexed belongs to it.
      if (event.indexed >= 1 || (here.current < 0 && shown.current < PAGE)) list.reload();
    },
  }, [run, list.reload]);
  const share = Math.max(list.indexed ?? 0, indexed ?? 0);
  const indexing = list.indexed !== null && share < 1;
  const open = (/** @type {number} */ index) => {
    const row = list.rows[index];
    if (row) navigate(to.episode(run, row.id));
  };
  const move = (/** @type {number} */ by) => setAt((old) => Math.min(Math.max(old + by, 0), list.rows.length - 1));
  useKeys("Episodes", [
    { keys: "j", text: "Next episode", act: () => move(1) },
    { keys: "k", text: "Previous episode", act: () => move(-1) },
    { keys: "Enter", text: "Open the episode", act: () => open(at) },
    { keys: "o", text: "Open the episode's group", act: () => { const row = list.rows[at]; if (row) navigate(to.group(run, row.split, row.step, row.task)); } },
    { keys: "t", text: "Open the episode's tokens", act: () => { const row = list.rows[at]; if (row) navigate(to.tokens(run, row.id)); } },
    { keys: "s", text: "Sort by the next column", act: () => setQuery({ sort: nextSort(sort), order: null }) },
  ], [run, at, list.rows, sort]);
  const onRange = useCallback((/** @type {number} */ _first, /** @type {number} */ last) => list.need(last), [list.need]);
  const setSort = (/** @type {string} */ key, /** @type {string} */ way) => setQuery({ sort: key === "step" ? null : key, order: way === "desc" ? null : way });
  const several = (currentRun.value?.name ?? "") !== "" && list.rows.some((row) => row.split !== list.rows[0]?.split);
  return html`<div class="page episodes-page">
    <h1 class="sr-only">Episodes</h1>
    <div class="stack">
      <${FilterBox} label="Filter episodes" run=${run} value=${filter} error=${list.error?.at === undefined ? null : list.error}
        placeholder="reward<0.5 agent:critic step:30..40 or words of the text" onChange=${(/** @type {string} */ text) => setQuery({ filter: text })} />
      <div class="row spread">
        <div class="chips" role="group" aria-label="Frequent filters">${EXAMPLES.map((term) => html`<button type="button" class="chip" key=${term}
          aria-pressed=${filter.split(/\s+/).includes(term)} onClick=${() => setQuery({ filter: toggleTerm(filter, term) })}>${term}</button>`)}</div>
        <div class="row small muted" role="status">
          ${added > 0 && html`<button type="button" onClick=${() => { setAdded(0); setAt(-1); list.reload(); }}>Show ${plural(added, "new episode")}</button>`}
          ${indexing && html`<span class="badge warn">${percent(share, 0)} of the store is indexed</span>`}
          ${list.total !== null && html`<span>${count(list.total)} ${list.total === 1 ? "episode" : "episodes"}</span>`}
        </div>
      </div>
    </div>
    ${list.error && list.error.at === undefined && html`<${ErrorBox} error=${list.error} retry=${list.reload} />`}
    ${list.loading && html`<div class="loading-bar" aria-hidden="true"></div>`}
    <${Problems} problems=${list.problems} />
    ${list.total === null ? !list.error && html`<${Loading} what="Looking for episodes" />`
      : list.total === 0 ? html`<${Empty} title=${indexing ? (filter ? "No indexed episode matches" : "No episode is indexed yet") : filter ? "No episode matches" : "No episode has been stored yet"}>
          ${filter ? html`<button type="button" onClick=${() => setQuery({ filter: null })}>Clear the filter</button>` : `They appear here as they ${indexing ? "are indexed" : "finish"}.`}<//>`
      : html`<${VirtualRows} label="Episodes" count=${list.total} rowHeight=${ROW_HEIGHT} height="max(320px, calc(100vh - 232px))" current=${at} onRange=${onRange}
          head=${html`<${EpisodeHead} sort=${sort} order=${order} onSort=${setSort} />`}
          row=${(/** @type {number} */ index) => html`<${EpisodeLine} key=${list.rows[index]?.id ?? `row ${index}`} run=${run} row=${list.rows[index]} index=${index}
            current=${index === at} showSplit=${several} onPick=${setAt} />`} />`}
  </div>`;
}

const SORTS = ["step", "reward", "advantage", "tokens", "turns", "duration", "task"];

/** @param {string} sort */
function nextSort(sort) {
  return SORTS[(SORTS.indexOf(sort) + 1) % SORTS.length];
}
