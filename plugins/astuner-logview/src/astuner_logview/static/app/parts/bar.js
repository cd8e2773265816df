// @ts-check
/** The bar at the top: where one is, whether the page is live, light or dark, help. */
import { html } from "../html.js";
import { nameRepeat, nameTask, safe } from "../format.js";
import { helpOpen } from "../keys.js";
import { connection, currentRun, following } from "../live.js";
import { to } from "../route.js";
import { isExported } from "../source.js";
import { isDark, toggleTheme } from "../theme.js";
import { isLive } from "./badge.js";

/** @typedef {import("../pages/index.js").Page} Page */

/** @param {{page: Page|null, run: string, parts: string[]}} props */
export function Bar({ page, run, parts }) {
  const crumbs = findCrumbs(page, run, parts);
  const row = currentRun.value;
  const live = run && row && isLive(row.status);
  return html`<header class="bar">
    <a class="brand" href="#/" aria-label="astuner: all runs"><${Logo} /><span>astuner</span></a>
    <nav class="crumbs" aria-label="Breadcrumbs"><ol>
      ${crumbs.map(([text, href], at) => html`<li key=${at}>
        ${at < crumbs.length - 1 && href ? html`<a href=${href} title=${text}>${text}</a>` : html`<span class="truncate" aria-current=${at === crumbs.length - 1 ? "page" : undefined} title=${text}>${text}</span>`}
      </li>`)}
    </ol></nav>
    <div class="bar-tools">
      ${live && html`<button type="button" class="quiet" aria-pressed=${following.value} title="Go to each new failure as it happens"
        onClick=${() => { following.value = !following.value; }}>Follow<span class="wide">failures</span></button>`}
      ${connection.value === "lost" && html`<span class="badge warn" role="status"><span class="live-dot lost" aria-hidden="true"></span>Connection lost</span>`}
      ${!isExported() && html`<a class="button quiet wide" href=${to.configuration()}>Configuration</a>`}
      <button type="button" class="quiet icon" onClick=${toggleTheme} aria-label=${isDark() ? "Use light colours" : "Use dark colours"} title=${isDark() ? "Light" : "Dark"}>
        <${Symbol} name=${isDark() ? "sun" : "moon"} />
      </button>
      <button type="button" class="quiet icon wide" onClick=${() => { helpOpen.value = true; }} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">?</button>
    </div>
  </header>`;
}

/** @param {Page|null} page @param {string} run @param {string[]} parts @returns {[string, string|null][]} */
function findCrumbs(page, run, parts) {
  /** @type {[string, string|null][]} */
  const crumbs = isExported() ? [] : [["Runs", "#/"]];
  if (!page || page.name === "runs") return crumbs;
  if (!run) return [...crumbs, [page.title, null]];
  crumbs.push([safe(currentRun.value?.name ?? run), isExported() ? null : to.run(run)]);
  if (page.name === "run") return crumbs;
  if (page.name === "group") return [...crumbs, [`${parts[0] === "train" ? "" : `${parts[0]} `}step ${parts[1]}`, null], [nameTask(parts[2] ?? ""), null]];
  if (page.name === "episode" || page.name === "tokens") {
    const [split = "", step = "", ...rest] = (parts[0] ?? "").split("/");
    const repeat = rest.pop() ?? "";
    const task = rest.join("/");
    const here = isExported() ? null : to.group(run, split, Number(step), task);
    crumbs.push([`step ${step} · ${nameTask(task)}`, here], [nameRepeat(repeat), to.episode(run, parts[0] ?? "")]);
    return page.name === "tokens" ? [...crumbs, ["Tokens", null]] : crumbs;
  }
  if (page.name === "task") return [...crumbs, ["Tasks", to.tasks(run)], [nameTask(parts[0] ?? ""), null]];
  return [...crumbs, [page.title, null]];
}

function Logo() {
  return html`<svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="var(--accent)" />
    <path d="M6 23l5-6 4 3 5-9 6 3" fill="none" stroke="var(--on-accent)" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round" />
    <circle cx="20" cy="11" r="2.6" fill="var(--on-accent)" /></svg>`;
}

/** @type {Record<string, string>} */
const SYMBOLS = {
  sun: "M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3.05 3.05l1.13 1.13M11.82 11.82l1.13 1.13M12.95 3.05l-1.13 1.13M4.18 11.82l-1.13 1.13M11 8a3 3 0 1 1-6 0 3 3 0 0 1 6 0z",
  moon: "M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6L14 14",
};

/** @param {{name: string, css?: string}} props */
export function Symbol({ name, css = "" }) {
  return html`<svg class=${css} width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4"
    stroke-linecap="round" stroke-linejoin="round"><path d=${SYMBOLS[name]} /></svg>`;
}
