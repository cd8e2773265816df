// @ts-check
/** Which module shows which address. Modules load when they are first needed. */
import { preload } from "../preload.js";
import { listFirst } from "../tokens/first.js";

/** @typedef {import("../html.js").VNode} VNode */
/** @typedef {{run: string, parts: string[]}} PageProps what the address names: the run ("" if none) and the decoded parts after it */
/** @typedef {{default: (props: PageProps) => VNode|null}} PageModule */
/**
 * @typedef {object} Page
 * @property {string} name
 * @property {string} title
 * @property {() => Promise<PageModule>} load
 * @property {boolean} [full] whether it takes the whole width
 * @property {(props: PageProps) => string[]} [needs] addresses of answers that are asked for while its modules load
 */

/** @type {(name: string, load: () => Promise<any>) => {name: string, load: () => Promise<PageModule>}} */
const page = (name, load) => ({ name, load: () => (preload(name), load()) });

// Import specifiers stay literal and relative: an exported page finds its modules by them.
const PAGES = {
  runs: { title: "Runs", ...page("runs", () => import("./runs.js")) },
  compare: { title: "Compare", ...page("compare", () => import("./compare.js")) },
  configuration: { title: "Configuration", ...page("configuration", () => import("./configuration.js")), full: true },
  run: { title: "Overview", ...page("run", () => import("./run.js")) },
  episodes: { title: "Episodes", ...page("episodes", () => import("./episodes.js")) },
  group: { title: "Group", ...page("group", () => import("./group.js")), full: true },
  worst: { title: "Worst group", ...page("worst", () => import("./worst.js")) },
  episode: { title: "Episode", ...page("episode", () => import("./episode.js")), full: true },
  tokens: { title: "Tokens", ...page("tokens", () => import("./tokens.js")), full: true, needs: listFirst },
  task: { title: "Task", ...page("task", () => import("./task.js")), full: true },
  tasks: { title: "Tasks", ...page("tasks", () => import("./tasks.js")) },
  judge: { title: "Judge", ...page("judge", () => import("./judge.js")) },
  why: { title: "Why", ...page("why", () => import("./why.js")) },
};
/** @type {Record<string, keyof typeof PAGES>} */
const IN_RUN = { episodes: "episodes", g: "group", s: "worst", e: "episode", t: "tokens", task: "task", tasks: "tasks", judge: "judge", why: "why" };

/**
 * Return the page of an address's parts, the run it is in, and the parts after it; null if there is no such page.
 * @param {string[]} parts
 * @returns {{page: Page, run: string, parts: string[]}|null}
 */
export function findPage(parts) {
  const [first, run, kind] = parts;
  if (first === undefined) return { page: PAGES.runs, run: "", parts: [] };
  if (first === "compare" || first === "configuration") return { page: PAGES[first], run: "", parts: parts.slice(1) };
  if (first !== "r" || run === undefined) return null;
  if (kind === undefined) return { page: PAGES.run, run, parts: [] };
  const name = IN_RUN[kind];
  return name ? { page: PAGES[name], run, parts: parts.slice(3) } : null;
}
