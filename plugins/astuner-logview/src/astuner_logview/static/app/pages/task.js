// @ts-check
/** One task over time: its rewards and answers at each step, and the difference between two of them. */
import { html, useMemo } from "../html.js";
import { nameTask, plural, safe } from "../format.js";
import { LongText } from "../episode/long_text.js";
import { SHORT_TEXT } from "../episode/turn_facts.js";
import { useKeys } from "../keys.js";
import { useRetry } from "../episode/retry.js";
import { useLive } from "../live.js";
import { Chart } from "../parts/chart.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { navigate, query, to } from "../route.js";
import { api, useAnswer } from "../source.js";
import { Comparison } from "../task/comparison.js";
import { PlayTable } from "../task/play_table.js";
import { chooseAnswer, choosePair, drawCurves } from "../task/plays.js";

/** @typedef {import("../types.js").Task} Task */

/** @param {{run: string, parts: string[]}} props */
export default function TaskPage({ run, parts }) {
  const answer = /** @type {ReturnType<typeof useAnswer<Task>>} */ (useAnswer(api(["runs", run, "task"], { task: parts[0] ?? "" })));
  useRetry(answer);
  useLive({ step: answer.reload }, [run, parts[0]]);
  return html`<div class="page task-page"><${Answer} answer=${{ ...answer, data: answer.error ? null : answer.data }} what="Loading the task">${(/** @type {Task} */ task) => html`<${TaskView} run=${run} task=${task} />`}<//></div>`;
}

/** @param {{run: string, task: Task}} props */
function TaskView({ run, task }) {
  const plays = useMemo(() => [...task.plays].sort((one, other) => one.step - other.step), [task]);
  const curves = useMemo(() => drawCurves(plays), [plays]);
  const [before, after] = choosePair(plays, query("a"), query("b"));
  const open = (/** @type {string|null|undefined} */ other) => {
    if (other) navigate(to.task(run, other));
  };
  useKeys(
    "Task",
    [
      { keys: "]", text: "Next task", act: () => open(task.next) },
      { keys: "[", text: "Previous task", act: () => open(task.previous) },
    ],
    [run, task],
  );
  const openStep = (/** @type {number} */ step) => {
    const play = plays.find((one) => one.step === step);
    if (play) navigate(to.group(run, play.split, play.step, task.task));
  };
  return html`
    <${Problems} problems=${task.problems} />
    <header class="page-head">
      <div><h1 title=${safe(task.task)}>${nameTask(task.task)}</h1><p class="about">${describeSteps(plays.map((play) => play.step))}</p></div>
      <nav class="row" aria-label="Other tasks">
        ${task.previous && html`<a class="button" href=${to.task(run, task.previous)} title=${safe(task.previous)}>← previous</a>`}
        ${task.next && html`<a class="button" href=${to.task(run, task.next)} title=${safe(task.next)}>next →</a>`}
      </nav>
    </header>
    ${task.query && html`<section class="card task-query"><${LongText} text=${task.query} limit=${SHORT_TEXT} /></section>`}
    ${plays.length === 0
      ? html`<${Empty} title="This task was not played yet" />`
      : html`
        ${plays.length > 1 && html`<section class="card"><h2 class="sr-only">Reward by step</h2><div class="card-body"><${Chart} title="Mean reward of the repeats" lines=${curves} onStep=${openStep} />
          ${curves.length > 1 && html`<ul class="legend">${curves.map((curve) => html`<li key=${curve.label}><span class=${`swatch s${curve.series}`}></span>${safe(curve.label)}</li>`)}</ul>`}</div></section>`}
        <${PlayTable} run=${run} task=${task.task} plays=${plays} checkpoints=${task.checkpoints} before=${before} after=${after} />
        ${before && after && html`<section class="section"><h2>${before === after ? "Worst and best answer" : "What changed in the answer"}</h2>
          <${Comparison} run=${run} before=${before} after=${after} from=${chooseAnswer(before, readRepeat("ar"), before === after ? -1 : 1)} to=${chooseAnswer(after, readRepeat("br"))} /></section>`}`}
  `;
}

/** @param {number[]} steps */
function describeSteps(steps) {
  if (steps.length < 2) return steps.length ? `played at step ${steps[0]}` : "not played yet";
  return `${plural(steps.length, "play")} from step ${steps[0]} to step ${steps[steps.length - 1]}`;
}

/** @param {string} key */
function readRepeat(key) {
  const text = query(key);
  return text === "" ? null : Number(text);
}
