// @ts-check
/** The keys of the episode page. */
import { copyText } from "../parts/copy.js";
import { useKeys } from "../keys.js";
import { announcement } from "../live.js";
import { navigate, query, route, setQuery, to } from "../route.js";
import { api, holds } from "../source.js";

/** @typedef {import("../types.js").Episode} Episode */
/** @typedef {import("../types.js").CallRow} CallRow */

/** @param {{run: string, episode: Episode, shown: CallRow[], turn: number|null, leaf: number|null}} props */
export function useEpisodeKeys({ run, episode, shown, turn, leaf }) {
  const step = (/** @type {1|-1} */ by) => {
    const at = shown.findIndex((call) => call.index === turn);
    const next = shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by];
    if (next) setQuery({ turn: next.index });
  };
  const open = (/** @type {string|null|undefined} */ id) => {
    if (id && holds(api(["runs", run, "episode"], { id }))) navigate(to.episode(run, id, { view: query("view") }));
  };
  const openGroup = () => {
    const { split, step, task } = episode;
    if (holds(api(["runs", run, "group"], { split, step, task: task.id }))) navigate(to.group(run, split, step, task.id));
  };
  const beside = (/** @type {1|-1} */ by) => {
    // From the address, which a first press has already changed while its episode loads.
    const at = episode.siblings.findIndex((sibling) => sibling.id === route.peek().parts[3]);
    if (at >= 0) open(episode.siblings[at + by]?.id);
  };
  useKeys(
    "Episode",
    [
      { keys: "j", text: "Next turn", act: () => step(1) },
      { keys: "k", text: "Previous turn", act: () => step(-1) },
      { keys: "l", text: "Next sibling", act: () => beside(1) },
      { keys: "h", text: "Previous sibling", act: () => beside(-1) },
      { keys: "]", text: "Next episode", act: () => open(episode.next) },
      { keys: "[", text: "Previous episode", act: () => open(episode.previous) },
      { keys: "u", text: "Up to the group", act: openGroup },
      { keys: "t", text: "Tokens", act: () => { if (leaf !== null) navigate(to.tokens(run, episode.id, { path: leaf, at: shown.find((call) => call.index === turn)?.prompt_tokens })); } },
      { keys: "y", text: "Copy this address", act: () => { copyText(location.href).then((worked) => { announcement.value = worked ? "The address is copied." : "The address could not be copied."; }); } },
    ],
    [run, episode, shown, turn, leaf],
  );
}
