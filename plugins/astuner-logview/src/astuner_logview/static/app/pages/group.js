// @ts-check
/** A group: all repeats of a task at a step, side by side from where they part. */
import { html, useMemo } from "../html.js";
import { fixed, nameTask, plural, safe } from "../format.js";
import { useRetry } from "../episode/retry.js";
import { ShareMenu } from "../episode/share.js";
import { alignSiblings } from "../group/alignment.js";
import { Board } from "../group/board.js";
import { useGroupKeys } from "../group/group_keys.js";
import { SharedPart } from "../group/shared_part.js";
import { CopyButton } from "../parts/copy.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { sortRows } from "../parts/table.js";
import { query, setQuery, to } from "../route.js";
import { api, isExported, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Group} Group */

/** @param {{run: string, parts: string[]}} props */
export default function GroupPage({ run, parts }) {
  const [split = "", step = "", task = ""] = parts;
  const answer = /** @type {ReturnType<typeof useAnswer<Group>>} */ (useAnswer(api(["runs", run, "group"], { split, step, task })));
  useRetry(answer);
  return html`<div class="page group-page"><${Answer} answer=${{ ...answer, data: answer.error ? null : answer.data }} what="Loading the group">${(/** @type {Group} */ group) => html`<${GroupView} run=${run} group=${group} />`}<//></div>`;
}

/** @param {{run: string, group: Group}} props */
function GroupView({ run, group }) {
  const sort = query("sort");
  const siblings = useMemo(() => (sort === "reward" ? sortRows(group.siblings, (sibling) => sibling.reward, "desc") : group.siblings), [group, sort]);
  const alignment = useMemo(() => alignSiblings(siblings), [siblings]);
  const focus = readNumber("sibling");
  const turn = readNumber("turn");
  useGroupKeys({ run, group, siblings, rows: alignment.rows, focus, turn });
  return html`
    <${Problems} problems=${group.problems} />
    <${GroupHead} run=${run} group=${group} />
    <${SharedPart} run=${run} group=${group} alignment=${alignment} />
    ${siblings.length === 0
      ? html`<${Empty} title="This group has no episodes" />`
      : html`<div class="group-board">
        <div class="row spread group-tools"><p class="small muted">${describeRewards(group)}</p>
          ${siblings.length > 1 && html`<div class="segmented" role="group" aria-label="Order of the columns">
            <button type="button" aria-pressed=${sort !== "reward"} onClick=${() => setQuery({ sort: null })}>By repeat</button>
            <button type="button" aria-pressed=${sort === "reward"} onClick=${() => setQuery({ sort: "reward" })}>By reward</button>
          </div>`}
        </div>
        <${Board} key=${sort} run=${run} siblings=${siblings} alignment=${alignment} focus=${focus} turn=${turn} onFocus=${(/** @type {number} */ repeat) => setQuery({ sibling: repeat })} />
      </div>`}
  `;
}

/** @param {{run: string, group: Group}} props */
function GroupHead({ run, group }) {
  const { split, step, task, previous, next } = group;
  const linked = !isExported();
  return html`<header class="page-head">
    <div>
      <h1>${linked ? html`<a href=${to.task(run, task)} title=${`${safe(task)}: this task over time`}>${nameTask(task)}</a>` : nameTask(task)}</h1>
      <p class="about">${safe(split)} · step ${step} · ${plural(group.siblings.length, "repeat")}</p>
    </div>
    ${linked && html`<div class="row no-print">
      ${(previous || next) && html`<nav class="row" aria-label="Other groups">
        ${previous && html`<a class="button" href=${to.group(run, split, previous.step, previous.task)} title=${`Previous ([): ${describeNeighbour(previous)}`}>← ${previous.task === task ? `step ${previous.step}` : "previous"}</a>`}
        ${next && html`<a class="button" href=${to.group(run, split, next.step, next.task)} title=${`Next (]): ${describeNeighbour(next)}`}>${next.task === task ? `step ${next.step}` : "next"} →</a>`}
      </nav>`}
      <${ShareMenu} kind="group" run=${run} values=${{ split, step, task }} />
      <${CopyButton} text=${() => location.href} label="Copy link" css="quiet" />
    </div>`}
  </header>`;
}

/** @param {{step: number, task: string}} other */
function describeNeighbour(other) {
  return safe(`step ${other.step}, ${other.task}`);
}

/** @param {Group} group */
function describeRewards(group) {
  const rewards = group.siblings.flatMap((sibling) => (sibling.reward === null ? [] : [sibling.reward]));
  if (!rewards.length) return "No sibling has a reward.";
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const [low, high] = [Math.min(...rewards), Math.max(...rewards)];
  const without = group.siblings.length - rewards.length;
  return `mean reward ${fixed(mean)}${low === high ? ", all the same: the group carries no signal" : `, from ${fixed(low)} to ${fixed(high)}`}${without ? `; ${without} without a reward` : ""}`;
}

/** @param {string} key */
function readNumber(key) {
  const text = query(key);
  return text !== "" && Number.isInteger(Number(text)) ? Number(text) : null;
}
