// @ts-check
/** What frames every page: the bar with crumbs, a run's tabs, the page, and what a screen reader hears of changes. */
import { html, useEffect, useRef, useState } from "./html.js";
import { Bar } from "./parts/bar.js";
import { Help } from "./parts/help.js";
import { Empty, ErrorBox, Loading } from "./parts/notices.js";
import { LinkTabs } from "./parts/tabs.js";
import { safe, short } from "./format.js";
import { announcement, currentRun, useConnection } from "./live.js";
import { useReloadOnceIndexed } from "./parts/indexing.js";
import { findPage } from "./pages/index.js";
import { currentAddress, route, to } from "./route.js";
import { api, describe, isExported, prefetch, useAnswer } from "./source.js";

/** @typedef {import("./types.js").Run} Run */
/** @typedef {import("./pages/index.js").Page} Page */
/** @typedef {import("./pages/index.js").PageProps} PageProps */

/** @type {Map<string, (props: PageProps) => any>} */
const loaded = new Map();

export function Shell() {
  const { parts, query } = route.value;
  const found = findPage(parts);
  const run = found?.run ?? "";
  const main = useRef(/** @type {HTMLElement|null} */ (null));
  const place = parts.join("/");
  useConnection(run);
  const first = useRef(true);
  useEffect(() => {
    window.scrollTo(0, 0);
    // A reader of the screen continues in the new page, not in the old one's remains.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [place]);
  const title = found ? found.page.title : "Not found";
  const name = run ? currentRun.value?.name ?? run : "";
  useEffect(() => {
    document.title = safe(name ? `${title} · ${name} · astuner` : `${title} · astuner`);
  }, [title, name]);
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
    <${Bar} page=${found?.page ?? null} run=${run} parts=${found?.parts ?? []} />
    ${run && !isExported() && html`<${RunTabs} run=${run} name=${found?.page.name ?? ""} tab=${query.get("tab")} />`}
    <main id="main" ref=${main} tabindex="-1" data-address=${currentAddress.value} class=${found?.page.full ? "full" : ""}>
      ${found
        ? html`<${PageHolder} key=${`${found.page.name} ${run}`} page=${found.page} run=${run} parts=${found.parts} />`
        : html`<${Empty} title="There is no such page"><a href="#/">Go to all runs</a><//>`}
    </main>
    <div class="sr-only" role="status" aria-live="polite">${announcement.value}</div>
    <${Help} />
  `;
}

/** @param {PageProps & {page: Page}} props */
function PageHolder({ page, run, parts }) {
  const [failure, setFailure] = useState(/** @type {unknown} */ (null));
  const [, setReady] = useState(0);
  const Content = loaded.get(page.name);
  useEffect(() => {
    if (Content) return;
    if (!isExported()) prefetch(page.needs?.({ run, parts }) ?? []);
    page.load().then(
      (module) => {
        loaded.set(page.name, module.default);
        setReady((value) => value + 1);
      },
      setFailure,
    );
  }, [page.name]);
  if (failure) return html`<${ErrorBox} error=${describe(failure)} />`;
  return Content ? html`<${Content} run=${run} parts=${parts} />` : html`<${Loading} />`;
}

/** @param {{run: string, name: string, tab: string|null}} props */
function RunTabs({ run, name, tab }) {
  const { data, reload } = /** @type {ReturnType<typeof useAnswer<Run>>} */ (useAnswer(api(["runs", run])));
  useReloadOnceIndexed(data, reload);
  useEffect(() => {
    if (data) currentRun.value = data;
  }, [data]);
  useEffect(() => () => { currentRun.value = null; }, [run]);
  const configuration = name === "run" && tab === "configuration";
  const tabs = [
    { href: to.run(run), title: "Overview", current: name === "run" && !configuration },
    { href: to.episodes(run), title: "Episodes", current: ["episodes", "group", "worst", "episode", "tokens"].includes(name), count: data?.episodes ? short(data.episodes) : null },
    { href: to.tasks(run), title: "Tasks", current: name === "tasks" || name === "task" },
    { href: to.judge(run), title: "Judge", current: name === "judge" },
    { href: to.why(run), title: "Why", current: name === "why" },
    { href: to.run(run, { tab: "configuration" }), title: "Configuration", current: configuration },
  ];
  return html`<${LinkTabs} label="This run" css="run-tabs" tabs=${tabs} />`;
}
