// @ts-check
/** One episode: its turns, what the judge said, what went wrong, and the tree of its calls. */
import { html, useEffect } from "../html.js";
import { choosePath, choosePathOf } from "../episode/call_tree.js";
import { Conversation } from "../episode/conversation.js";
import { FailureView } from "../episode/failure.js";
import { FindingView } from "../episode/finding.js";
import { EpisodeHead } from "../episode/head.js";
import { useEpisodeKeys } from "../episode/episode_keys.js";
import { Lanes } from "../episode/lanes.js";
import { useRetry } from "../episode/retry.js";
import { CallTree } from "../episode/tree.js";
import { TreeView } from "../episode/tree_view.js";
import { TurnView } from "../episode/turn.js";
import { Verdict } from "../episode/verdict.js";
import { PathSelect } from "../tokens/path_select.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { query, setQuery } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Episode} Episode */
/** @typedef {import("../types.js").CallRow} CallRow */
/** @typedef {import("../types.js").Path} Path */

/** @param {{run: string, parts: string[]}} props */
export default function EpisodePage({ run, parts }) {
  const id = parts[0] ?? "";
  const answer = /** @type {ReturnType<typeof useAnswer<Episode>>} */ (useAnswer(api(["runs", run, "episode"], { id })));
  useRetry(answer);
  return html`<div class="page episode-page"><${Answer} answer=${{ ...answer, data: answer.error ? null : answer.data }} what="Loading the episode">${(/** @type {Episode} */ episode) => html`<${EpisodeView} key=${episode.id} run=${run} episode=${episode} />`}<//></div>`;
}

/** @param {{run: string, episode: Episode}} props */
function EpisodeView({ run, episode }) {
  const { calls, paths, lanes } = episode;
  const path = choosePath(paths, query("path"));
  const turn = query("turn") === "" ? null : Number(query("turn"));
  const hasLanes = lanes.length > 1;
  const view = query("view", hasLanes && query("path") === "" ? "agents" : "path");
  const isBranched = paths.length > 1;
  const shown = view === "agents" && hasLanes ? calls : calls.filter((call) => path?.calls.includes(call.index));
  useEpisodeKeys({ run, episode, shown, turn, leaf: path?.leaf ?? null });
  useEffect(() => {
    if (turn !== null) document.getElementById(`turn-${turn}`)?.scrollIntoView({ block: "nearest" });
  }, [turn, view, path]);
  const choose = (/** @type {number} */ call) => setQuery({ turn: call, path: choosePathOf(paths, call, path)?.leaf, view: view === "agents" ? "agents" : null });
  const draw = (/** @type {CallRow} */ call) => html`<${TurnView} key=${call.index} run=${run} id=${episode.id} call=${call} leaf=${choosePathOf(paths, call.index, path)?.leaf ?? call.index}
    findings=${episode.findings.filter((finding) => finding.call === call.index)} isCurrent=${turn === call.index} showAgent=${view !== "agents" && hasLanes} />`;
  const loose = episode.findings.filter((finding) => finding.call === null || !calls.some((call) => call.index === finding.call));
  return html`
    <${Problems} problems=${episode.problems} />
    <${EpisodeHead} run=${run} episode=${episode} leaf=${path?.leaf ?? null} />
    <div class="episode-body">
      <div class="episode-main">
        ${episode.failures.map((failure, at) => html`<${FailureView} key=${at} failure=${failure} />`)}
        ${loose.map((finding, at) => html`<${FindingView} key=${at} finding=${finding} />`)}
        ${(isBranched || hasLanes) && html`<div class="row spread">
          ${hasLanes && html`<div class="segmented" role="group" aria-label="View">
            <button type="button" aria-pressed=${view === "agents"} onClick=${() => setQuery({ view: "agents" })}>Agents</button>
            <button type="button" aria-pressed=${view !== "agents"} onClick=${() => setQuery({ view: "path", path: path?.leaf })}>One path</button>
          </div>`}
          ${view !== "agents" && path && html`<${PathSelect} paths=${paths} path=${String(path.leaf)} />`}
        </div>`}
        ${calls.length === 0
          ? html`<${Empty} title="No call of a model was recorded">${episode.completed ? "" : "The episode failed before its first call."}<//>`
          : view === "agents" && hasLanes ? html`<${Lanes} episode=${episode} turn=${turn} draw=${draw} />` : html`<${Conversation} calls=${shown} turn=${turn} draw=${draw} />`}
      </div>
      <aside class="episode-side" aria-label="Verdict and facts">
        <section class="card"><div class="card-head"><h2>Verdict</h2></div><div class="card-body"><${Verdict} episode=${episode} /></div></section>
        ${isBranched && html`<section class="card"><div class="card-head"><h2>Calls</h2></div><div class="card-body"><${CallTree} calls=${calls} path=${path} turn=${turn} onCall=${choose} /></div></section>`}
        <${Facts} title="Task" value=${{ ...(episode.task.query ? { query: episode.task.query } : {}), ...(episode.task.env_type && episode.task.env_type !== "no_env" ? { environment: episode.task.env_type } : {}), ...episode.task.metadata }} />
        <${Facts} title="Output: metadata" value=${episode.output?.metadata ?? {}} />
        <${Facts} title="Output: log_metrics" value=${episode.output?.log_metrics ?? {}} />
        <${Facts} title="Observations" value=${episode.observations} />
      </aside>
    </div>
  `;
}

/** @param {{title: string, value: Record<string, unknown>|null}} props nothing if there is nothing */
function Facts({ title, value }) {
  if (!value || !Object.keys(value).length) return null;
  return html`<section class="card facts-card"><div class="card-head"><h2>${title}</h2></div><div class="card-body"><${TreeView} value=${value} /></div></section>`;
}
