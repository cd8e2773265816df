// @ts-check
/** The keys of the group page. */
import { useKeys } from "../keys.js";
import { announcement } from "../live.js";
import { copyText } from "../parts/copy.js";
import { navigate, setQuery, to } from "../route.js";
import { isExported } from "../source.js";

/** @typedef {import("../types.js").Group} Group */
/** @typedef {import("../types.js").Sibling} Sibling */

/** @param {{run: string, group: Group, siblings: Sibling[], rows: number, focus: number|null, turn: number|null}} props siblings in the order of the columns */
export function useGroupKeys({ run, group, siblings, rows, focus, turn }) {
  const at = siblings.findIndex((sibling) => sibling.repeat === focus);
  const beside = (/** @type {1|-1} */ by) => {
    const next = siblings[at < 0 ? (by > 0 ? 0 : siblings.length - 1) : at + by];
    if (!next) return;
    setQuery({ sibling: next.repeat });
    announcement.value = `Repeat ${next.repeat}, ${next.reward === null ? "no reward" : `reward ${next.reward}`}`;
  };
  const step = (/** @type {1|-1} */ by) => {
    const next = turn === null ? (by > 0 ? 0 : rows - 1) : turn + by;
    if (next >= 0 && next < rows) setQuery({ turn: next });
  };
  const open = (/** @type {{step: number, task: string}|null} */ other) => {
    if (other && !isExported()) navigate(to.group(run, group.split, other.step, other.task));
  };
  const chosen = siblings[at] ?? siblings[0];
  useKeys(
    "Group",
    [
      { keys: "l", text: "Next sibling", act: () => beside(1) },
      { keys: "h", text: "Previous sibling", act: () => beside(-1) },
      { keys: "j", text: "Next turn", act: () => step(1) },
      { keys: "k", text: "Previous turn", act: () => step(-1) },
      { keys: "]", text: "Next group", act: () => open(group.next) },
      { keys: "[", text: "Previous group", act: () => open(group.previous) },
      { keys: "Enter", text: "Open the sibling's episode", act: () => { if (chosen) navigate(to.episode(run, chosen.id)); } },
      { keys: "t", text: "Open the sibling's tokens", act: () => { if (chosen) navigate(to.tokens(run, chosen.id, { at: chosen.parts_at?.token })); } },
      { keys: "y", text: "Copy this address", act: () => { copyText(location.href).then((worked) => { announcement.value = worked ? "The address is copied." : "The address could not be copied."; }); } },
    ],
    [run, group, siblings, rows, focus, turn],
  );
}
