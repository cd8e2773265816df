"""Draws the pictures of the viewer, `images/logview-*.png`, from a real run of the tutorial `support_tickets`.

`python docs/draw_logview.py BROWSER RUN` takes the program of a Chromium, such as `.tox/logview/browser/chromium`, and the
directory of the tutorial's run, such as `launcher_record/tickets`. It needs `playwright` and `astuner-logview`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from astuner.runs.inspection.run import Run

HERE = Path(__file__).parent
SIZES = {"run": (1280, 680), "group": (1440, 600), "tokens": (1280, 640)}
"""Pixels of each picture."""
VISIBLE = 4
"""Siblings that the picture of a group shows."""
SLOW_MS = 60_000
SETTLED = """() => document.querySelector("main")?.dataset.address === location.hash
    && document.querySelector("main h1")?.textContent.trim()
    && !document.querySelector(".loading-bar, .empty[role=status], [aria-busy=true]")
    && (!document.querySelector(".token-bar") || document.querySelector(".token-bar strong"))"""
"""Holds when a page has all its answers."""
DRAWN = (
    """() => document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))"""
)
"""Waits until what has come is on the screen."""
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--headless=new")


def main() -> None:
    """Start the viewer over a run, and draw its pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("browser", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "images", metavar="DIR")
    parser.add_argument("--step", type=int, default=40, help="the training step of which a group and an episode are drawn")
    arguments = parser.parse_args()
    episode = choose_episode(Run(arguments.run), arguments.step)
    command = [sys.executable, "-m", "astuner", "logview", str(arguments.run), "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as viewer:
        try:
            draw_pages(arguments.browser, read_address(viewer), episode, arguments.out)
        finally:
            viewer.terminate()


def choose_episode(run: Run, step: int) -> str:
    """Return the episode with the least reward of the group of a step of which the visible siblings divide most evenly."""
    groups: dict[str, list[float]] = {}
    for episode in run.episodes(split="train", step=step):
        groups.setdefault(episode.id.rpartition("/")[0], []).append(episode.reward or 0.0)
    group = min(groups, key=lambda name: (abs(sum(groups[name][:VISIBLE]) / VISIBLE - 0.5), name))
    return f"{group}/{groups[group].index(min(groups[group]))}"


def read_address(viewer: subprocess.Popen[str]) -> str:
    """Return the address that the viewer prints."""
    assert viewer.stdout is not None
    document = ""
    for line in viewer.stdout:
        document += line
        try:
            return str(json.loads(document)["url"])
        except ValueError:
            continue
    raise SystemExit(f"the viewer has not started: {document}")


def draw_pages(browser: Path, address: str, episode: str, out: Path) -> None:
    """Write a picture of each page."""
    split, step, task = episode.rpartition("/")[0].split("/", 2)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=list(ARGUMENTS))
        page = chromium.new_page(color_scheme="light", reduced_motion="reduce", locale="en-GB")
        page.goto(address)
        origin = page.url.partition("#")[0]
        run = page.get_by_role("row").nth(1).get_by_role("link").first.get_attribute("href")
        assert run is not None
        wait_for_index(page, origin, run)
        addresses = {
            "run": run,
            "group": f"{run}/g/{split}/{step}/{quote(task, safe='')}",
            "tokens": f"{run}/t/{quote(episode, safe='')}?by=entropy",
        }
        for name, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            # A page that begins with another address begins at its top.
            page.goto("about:blank")
            page.goto(f"{origin}{addresses[name]}")
            page.wait_for_function(SETTLED, timeout=SLOW_MS)
            if page.get_by_role("alert").count():
                raise SystemExit(f"{addresses[name]} cannot be drawn: {page.get_by_role('alert').first.inner_text()}")
            page.evaluate(DRAWN)
            page.screenshot(path=out / f"logview-{name}.png")
        chromium.close()


def wait_for_index(page: Page, origin: str, run: str) -> None:
    """Return when all episodes of the run are indexed."""
    answer = f"{origin}api/runs/{run.rpartition('/')[2]}"
    while page.request.get(answer).json()["indexed"] < 1:
        page.wait_for_timeout(200)


if __name__ == "__main__":
    main()
