// @ts-check
/** Every token of an episode's path, with what the sampler and the trainer made of it. */
import { html, useEffect, useMemo, useState } from "../html.js";
import { signed } from "../format.js";
import { choosePath } from "../episode/call_tree.js";
import { useRetry } from "../episode/retry.js";
import { SiblingStrip } from "../episode/sibling_strip.js";
import { PathSelect } from "../tokens/path_select.js";
import { Reward } from "../parts/badge.js";
import { Answer, Problems } from "../parts/notices.js";
import { query, to } from "../route.js";
import { api, get, holds, isExported, useAnswer } from "../source.js";
import { Chunks } from "../tokens/chunks.js";
import { addressChunk, addressStream, findFirstChunk } from "../tokens/first.js";
import { TokenViewer } from "../tokens/viewer.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("../types.js").Tokens} Tokens */
/** @typedef {import("../types.js").Episode} Episode */

/** @param {{run: string, parts: string[]}} props */
export default function TokensPage({ run, parts }) {
  const id = parts[0] ?? "";
  const [drawn, setDrawn] = useState("");
  // Without a path the server takes the longest. An exported page has no server, and chooses it by what the episode says.
  const mustChoose = query("path") === "" && isExported();
  // The episode may be large: it waits until the tokens are drawn.
  const episode = /** @type {ReturnType<typeof useAnswer<Episode>>} */ (useAnswer(mustChoose || drawn === id ? api(["runs", run, "episode"], { id }) : null));
  const known = episode.data?.id === id ? episode.data : null;
  const path = mustChoose ? String(choosePath(known?.paths ?? [], "")?.leaf ?? "") : query("path");
  const isChosen = !mustChoose || path !== "";
  const chunks = useMemo(() => new Chunks((chunk) => get(addressChunk(run, id, path, chunk))), [run, id, path]);
  useEffect(() => {
    if (isChosen) chunks.load(findFirstChunk()).catch(() => {});
  }, [chunks, isChosen]);
  const address = isChosen ? addressStream(run, id, path) : null;
  const stream = /** @type {ReturnType<typeof useAnswer<Stream>>} */ (useAnswer(address));
  const leaf = path === "" ? stream.data?.path ?? "" : path;
  useRetry(isChosen ? stream : episode);
  const tools = html`
    <h1 class="token-title">Tokens</h1>
    <a href=${to.episode(run, id, { path: leaf })}>Episode</a>
    ${known && html`
      <span class="nowrap"><span class="muted">Reward</span> <strong><${Reward} value=${known.reward} /></strong></span>
      ${known.advantage !== null && html`<span class="nowrap"><span class="muted">Advantage</span> <strong>${signed(known.advantage)}</strong></span>`}
      <${PathSelect} paths=${known.paths} path=${String(leaf)} />
      <${SiblingStrip} siblings=${known.siblings} current=${id} addressOf=${(/** @type {string} */ other) => (holds(api(["runs", run, "episode"], { id: other })) ? to.tokens(run, other, { by: query("by") }) : null)} />`}
  `;
  if (!isChosen && known) return html`<div class="page"><p class="notice">This episode has no tokens: no call of a model was recorded.</p></div>`;
  return html`<div class="tokens-page">
    <${Answer} answer=${!isChosen ? { ...episode, data: null } : { ...stream, data: stream.loading || stream.error ? null : stream.data }} what="Loading tokens">
      ${(/** @type {Stream} */ data) => html`
        <${Problems} problems=${data.problems} />
        <${TokenViewer} key=${address} run=${run} episode=${id} stream=${data} chunks=${chunks} tools=${tools} onDrawn=${() => setDrawn(id)} />`}
    <//>
  </div>`;
}
