// @ts-check
/** Goes on to the group of a step that is most worth reading. */
import { html, useEffect } from "../html.js";
import { Answer, Empty, Loading } from "../parts/notices.js";
import { navigate, to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Steps} Steps */

/** @param {{run: string, parts: string[]}} props */
export default function Worst({ run, parts }) {
  const step = Number(parts[0]);
  const answer = /** @type {ReturnType<typeof useAnswer<Steps>>} */ (useAnswer(api(["runs", run, "steps"])));
  const found = answer.data?.steps.filter((row) => row.step === step) ?? [];
  const row = found.find((item) => item.split === "train") ?? found[0];
  useEffect(() => {
    if (row?.worst) navigate(to.group(run, row.split, row.step, row.worst.task), { replace: true });
  }, [row]);
  return html`<h1 class="sr-only">Worst group of step ${step}</h1>
    <${Answer} answer=${answer}>
      ${() => row?.worst ? html`<${Loading} />` : html`<${Empty} title=${`Step ${parts[0]} has no groups`}><a href=${to.run(run)}>Go to the run</a><//>`}
    <//>`;
}
