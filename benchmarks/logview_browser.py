"""The viewer at full size in a real browser: `python benchmarks/logview_browser.py [--small] [--store DIR]`.

Makes a run of 10,000 episodes and 5 GB, of which one has 100,000 tokens, opens it in Chromium without a network, and measures
what a reader waits for. `--store` keeps the run for a further start. Needs Node, playwright, and astuner-logview.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from attrs import define, field
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from rich.console import Console
from rich.table import Table

from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "logview"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browser_tools import install_browser_tools
from checked_page import Watch, launch, open_context
from logview_store import LONG_EPISODE, write_store
from made_up_run import make_groups
from viewer import Viewer, quoted, start_viewer
from viewer_pages import ask, settle

TOKENS = ".blocks .run > *"
"""The element of each token in the page."""

PAINTED = """([hash, selector]) => new Promise((resolve) => {
  const start = performance.now();
  location.hash = hash;
  const look = () => document.querySelectorAll(selector).length > 0
    ? requestAnimationFrame(() => setTimeout(() => resolve((performance.now() - start) / 1000)))
    : requestAnimationFrame(look);
  look();
})"""

RECOLOURED = """(value) => new Promise((resolve) => {
  const box = document.querySelector(".token-bar label select");
  const start = performance.now();
  box.value = value;
  box.dispatchEvent(new Event("change", {bubbles: true}));
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve((performance.now() - start) / 1000))));
})"""


@define
class Memory:
    """The largest resident size of a process and its children, looked at ten times a second."""

    pid: int
    largest: int = 0
    _over: threading.Event = field(factory=threading.Event)

    def watch(self) -> None:
        """Look until `stop`."""
        process = psutil.Process(self.pid)
        while not self._over.wait(0.1):
            try:
                sizes = [one.memory_info().rss for one in (process, *process.children(recursive=True))]
            except psutil.NoSuchProcess:
                return
            self.largest = max(self.largest, sum(sizes))

    def stop(self) -> None:
        """End the look."""
        self._over.set()


@contextmanager
def measured_viewer(store: Path, cache: Path) -> Iterator[tuple[Viewer, Memory]]:
    with start_viewer(store, cache=cache) as viewer:
        memory = Memory(viewer.process.pid)
        threading.Thread(target=memory.watch, daemon=True).start()
        yield viewer, memory
        memory.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="200 episodes and 20 MB, to see that it works")
    parser.add_argument("--store", type=Path, help="where the run is made, and found again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        store = arguments.store or Path(work) / "record"
        if not store.exists():
            begun = time.perf_counter()
            write_store(store / "large", small=arguments.small)
            print(f"made in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        tools = install_browser_tools(Path(os.environ.get("ASTUNER_BROWSER_TOOLS") or Path(work) / "browser"))
        with sync_playwright() as playwright:
            browser = launch(playwright, tools)
            try:
                show(measure(browser, store, Path(work) / "cache"))
            finally:
                browser.close()


def measure(browser: Browser, store: Path, cache: Path) -> list[tuple[str, str, str]]:
    """Return the rows of the table: what, measured, target."""
    rows: list[tuple[str, str, str]] = []
    watch = Watch()
    with measured_viewer(store, cache) as (viewer, memory), open_context(browser, watch) as window:
        rows += measure_list(window, viewer)
        rows.append(("RSS of the server while it indexes", f"{memory.largest / 1e6:.0f} MB", "200 MB"))
    begun = time.perf_counter()
    with measured_viewer(store, cache) as (viewer, memory), open_context(browser, watch) as window:
        started = time.perf_counter() - begun
        page = window.new_page()
        opened = wait_for_list(page, viewer)
        rows.append(("warm: the server's start", f"{started:.2f} s", ""))
        rows.append(("warm: list of runs after opening", f"{opened:.2f} s", "1 s"))
        run = ask(window, viewer, "/api/runs")["runs"][0]["id"]
        rows += measure_tokens(page, run)
        rows += measure_live(page, run, store)
        rows.append(("RSS of the server, all pages", f"{memory.largest / 1e6:.0f} MB", "200 MB"))
    rows.append(("requests that leave 127.0.0.1", str(sum("left" in fault for fault in watch.faults)), "0"))
    return rows


def measure_list(window: BrowserContext, viewer: Viewer) -> list[tuple[str, str, str]]:
    page = window.new_page()
    opened = wait_for_list(page, viewer)
    run = ask(window, viewer, "/api/runs")["runs"][0]
    begun = time.perf_counter()
    page.evaluate("(hash) => { location.hash = hash; }", f"#/r/{run['id']}/episodes")
    page.wait_for_selector("main td, main [role=row] [role=cell]")
    listed = time.perf_counter() - begun
    share = ask(window, viewer, "/api/runs")["runs"][0]["indexed"]
    while ask(window, viewer, "/api/runs")["runs"][0]["indexed"] < 1:
        time.sleep(0.2)
    indexed = time.perf_counter() - begun
    return [
        ("cold: list of runs", f"{opened:.2f} s", "2 s"),
        ("cold: list of episodes", f"{listed:.2f} s", "2 s"),
        ("indexed by then", f"{share:.0%}", ""),
        ("cold: all indexed", f"{indexed:.0f} s", "about a minute"),
    ]


def wait_for_list(page: Page, viewer: Viewer) -> float:
    begun = time.perf_counter()
    page.goto(viewer.address)
    page.wait_for_selector("main td")
    return time.perf_counter() - begun


def measure_tokens(page: Page, run: str) -> list[tuple[str, str, str]]:
    painted = page.evaluate(PAINTED, [f"#/r/{run}/t/{quoted(LONG_EPISODE)}", TOKENS])
    settle(page)
    measures = page.locator(".token-bar label select option:not([disabled])").evaluate_all(
        "(found) => found.map((one) => one.value)"
    )
    recoloured = [page.evaluate(RECOLOURED, measure) for measure in measures * 3]
    nodes = [count_nodes(page)]
    last = int(page.get_by_role("slider", name="Place in the stream").get_attribute("aria-valuemax") or 0)
    for token in (last // 2, last, last // 5):
        page.evaluate("(hash) => { location.hash = hash; }", f"#/r/{run}/t/{quoted(LONG_EPISODE)}?at={token}")
        page.wait_for_timeout(500)
        nodes.append(count_nodes(page))
    return [
        ("100,000 tokens: first paint", f"{painted:.2f} s", "0.5 s"),
        ("another colour, slowest of " + str(len(recoloured)), f"{max(recoloured):.3f} s", "0.1 s"),
        ("nodes, most", f"{max(nodes):,}", "5,000"),
    ]


def count_nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def measure_live(page: Page, run: str, store: Path) -> list[tuple[str, str, str]]:
    """Let the run go on, and wait for its next steps on the open page."""
    directory = RunDirectory(store / "large")
    directory.open()
    files, metrics = EpisodeFiles(directory.episodes), JsonlLogger(directory.metrics)
    waits = []
    for step in range(10_001, 10_006):
        directory.write_state(status="running", step=step - 1)
        page.evaluate("(hash) => { location.hash = hash; }", f"#/r/{run}")
        settle(page)
        groups = make_groups(step)
        for group in groups:
            for episode in group.episodes:
                files.add_episode(episode)
            files.add_verdicts(group)
        metrics.log(step, compute_rollout_metrics(groups, compute_advantages(groups, Grpo())))
        directory.write_state(step=step)
        begun = time.perf_counter()
        page.wait_for_selector(f'a[href^="#/r/{run}/g/train/{step}/"]')
        waits.append(time.perf_counter() - begun)
    directory.write_state(status="finished")
    for one in (files, metrics, directory):
        one.close()
    return [("a step's row after it was written, slowest of 5", f"{max(waits):.2f} s", "2 s")]


def show(rows: list[tuple[str, str, str]]) -> None:
    table = Table("what", "measured", "target")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
