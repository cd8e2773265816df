"""What each page shows, and the ways from one to the next."""

from __future__ import annotations

import re

import pytest
from checked_page import Watch
from made_up_run import DAMAGED, DEBATE
from playwright.sync_api import BrowserContext, Page, expect
from viewer import Viewer, quoted
from viewer_pages import find_run, list_pages, open_page, settle


@pytest.fixture
def run(window: BrowserContext, viewer: Viewer) -> str:
    """The id of the run that has everything."""
    return find_run(window, viewer, "marbles")


def address(page: Page) -> str:
    return page.url.partition("#")[2]


def test_runs_are_listed_with_how_they_do(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")

    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="marbles", exact=True))
    for text in ("finished", "local", "0.478", "0.778", "4 / 4", "60", "12 failed"):
        expect(row).to_contain_text(text)


def test_a_search_of_runs_is_in_the_address(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")
    page.keyboard.press("/")
    page.keyboard.type("pebb")

    expect(page.get_by_text("1 of ")).to_be_visible()
    page.wait_for_url("**/#/?q=pebb")
    page.reload()
    settle(page)
    expect(page.get_by_role("link", name="pebbles", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="marbles", exact=True)).to_have_count(0)


def test_runs_are_sorted_by_a_column(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")
    page.get_by_role("button", name="Name", exact=True).click()
    page.wait_for_url("**sort=name*")

    first = page.get_by_role("row").nth(1).inner_text()
    page.get_by_role("button", name="Name", exact=True).click()
    expect(page.get_by_role("row").nth(1)).not_to_have_text(first)


def test_two_runs_are_compared(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")
    for name in ("marbles", "pebbles"):
        page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()
    page.get_by_role("button", name="Compare 2").click()
    settle(page)

    expect(page.get_by_role("heading", name="Compare 2 runs")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("trainer_common.optim.lr"))).to_contain_text("0.01")
    expect(page.get_by_role("region", name="Curves")).to_contain_text("reward/mean")
    expect(page.locator("main")).to_contain_text("prices")


def test_a_run_is_opened_by_keys(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/?q=marbles&sort=name")
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    page.wait_for_url("**/#/r/marbles*")


def test_a_bar_of_the_waterfall_lists_its_episodes(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}")
    page.get_by_role("link", name=re.compile("The agent is not trained.*16 episodes")).click()
    settle(page)

    expect(page.get_by_role("heading", name="Episodes")).to_be_visible()
    expect(page.get_by_text("16 episodes")).to_be_visible()


def test_brackets_go_through_the_steps_of_a_run(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}")
    page.keyboard.press("]")
    page.wait_for_url("**of=1*")
    page.keyboard.press("]")
    page.wait_for_url("**of=2*")

    expect(page.get_by_role("link", name=re.compile("The agent is not trained.*4 episodes"))).to_be_visible()


def test_the_curve_of_a_run_is_read_and_opened_by_keys(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}")
    page.get_by_role("region", name="Reward").get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    page.wait_for_url(f"**/#/r/{run}/g/train/2/*")


def test_a_step_leads_to_its_worst_group(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/s/2/worst")

    page.wait_for_url(f"**/#/r/{run}/g/train/2/*")


def test_the_configuration_of_a_run_is_shown_as_it_was_given(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}?tab=configuration")

    expect(page.locator("main")).to_contain_text("# How far the weights may move.")


def test_a_filter_narrows_the_episodes_and_is_in_the_address(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/episodes")
    expect(page.get_by_text("60 episodes")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("agent:critic step:2..3 ")
    page.keyboard.press("Enter")

    expect(page.get_by_text("8 episodes")).to_be_visible()
    assert "filter=agent%3Acritic" in page.url
    page.reload()
    settle(page)
    expect(page.get_by_text("8 episodes")).to_be_visible()


def test_a_filter_that_cannot_be_understood_says_where_and_what_to_do(page: Page, viewer: Viewer, run: str, watch: Watch) -> None:
    watch.allow("400")
    open_page(page, viewer, f"/r/{run}/episodes?filter={quoted('reward<much')}")

    expect(page.get_by_role("alert")).to_contain_text("reward")
    expect(page.get_by_role("combobox", name="Filter episodes")).to_have_attribute("aria-invalid", "true")


def test_words_are_found_in_the_texts_of_episodes(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/episodes?filter=mammal")

    expect(page.get_by_text("16 episodes")).to_be_visible()
    expect(page.locator("main mark").first).to_have_text("mammal")


def test_a_key_of_the_filter_is_completed_by_the_keyboard(page: Page, viewer: Viewer, run: str, watch: Watch) -> None:
    watch.allow("400")
    open_page(page, viewer, f"/r/{run}/episodes")
    page.keyboard.press("/")
    page.keyboard.type("find")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    expect(page.get_by_role("combobox", name="Filter episodes")).to_have_value("finding:")


def test_episodes_are_sorted_by_a_column(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/episodes?filter=-reward:none")
    page.get_by_role("button", name="Reward", exact=True).click()
    page.wait_for_url("**sort=reward*")
    settle(page)

    expect(page.get_by_role("row").nth(1)).to_contain_text("1.000")


def test_an_episode_of_the_list_is_opened_by_keys(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/episodes")
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    page.wait_for_url(f"**/#/r/{run}/e/*")


def test_siblings_stand_side_by_side_where_they_part(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices")["group"])

    board = page.get_by_role("region", name="Siblings side by side")
    expect(board.get_by_role("heading")).to_have_count(4)
    expect(board).to_contain_text(re.compile(r"The siblings part at token \d+"))
    expect(board).to_contain_text("21 is not 84: the price was added, not multiplied.")
    expect(board).to_contain_text("The boxes cost 84.")
    expect(board).to_contain_text("advantage −0.866")


def test_siblings_and_groups_are_reached_by_keys(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices")["group"])
    page.keyboard.press("l")
    page.keyboard.press("l")
    page.keyboard.press("h")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/#/r/{run}/e/train%2F2%2Fprices%2F*")

    page.go_back()
    settle(page)
    page.keyboard.press("]")
    page.wait_for_url(f"**/#/r/{run}/g/train/3/*")
    settle(page)
    page.keyboard.press("[")
    page.wait_for_url(f"**/#/r/{run}/g/train/2/prices*")


def test_siblings_are_ordered_by_reward(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices")["group"])
    page.get_by_role("button", name="By reward").click()

    rewards = page.get_by_role("region", name="Siblings side by side").locator("strong").all_inner_texts()
    numbers = [float(text) for text in rewards if re.fullmatch(r"\d\.\d{3}", text)]
    assert numbers in (sorted(numbers), sorted(numbers, reverse=True))
    assert len(numbers) == 4


def test_an_episode_shows_turns_tools_reasoning_and_verdict(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices", repeat=2)["episode"])

    expect(page.get_by_role("article")).to_have_count(2)
    first = page.get_by_role("article").first
    expect(first).to_contain_text("calculator")
    first.get_by_text("Reasoning").click()
    expect(first.get_by_text("Twelve boxes, seven each: I work out 12 + 9.").last).to_be_visible()
    facts = page.get_by_role("complementary", name="Verdict and facts")
    expect(facts).to_contain_text("21 is not 84: the price was added, not multiplied.")
    expect(facts.get_by_role("row", name=re.compile("format"))).to_contain_text("0.8")


def test_turns_and_siblings_are_reached_by_keys(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices")["episode"])
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.wait_for_url("**turn=1*")
    page.keyboard.press("k")
    page.wait_for_url("**turn=0*")
    page.keyboard.press("l")
    page.wait_for_url("**/e/train%2F2%2Fprices%2F1*")
    settle(page)
    page.keyboard.press("h")
    page.wait_for_url("**/e/train%2F2%2Fprices%2F0*")
    settle(page)
    page.keyboard.press("u")
    page.wait_for_url(f"**/#/r/{run}/g/train/2/prices*")


def test_a_key_pressed_twice_goes_two_siblings_on(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices")["episode"])

    press = 'new KeyboardEvent("keydown", {key: "l", bubbles: true})'
    page.evaluate(f"for (const _ of [1, 2]) document.body.dispatchEvent({press})")

    page.wait_for_url("**/e/train%2F2%2Fprices%2F2*")


def test_a_failure_is_shown_with_its_place_and_traceback(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task=DAMAGED.task_id)["episode"])

    expect(page.locator("main")).to_contain_text("agent.py:12 in solve")
    page.get_by_text("Traceback").first.click()
    expect(page.get_by_text('File "agent.py", line 12, in solve')).to_be_visible()


def test_a_retried_episode_names_every_attempt(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task=DAMAGED.task_id, repeat=1)["episode"])

    for text in ("engine_lost", "connection refused", "timeout", "600 s"):
        expect(page.locator("main")).to_contain_text(text)


def test_a_failed_judge_is_named(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task=DAMAGED.task_id, repeat=2)["episode"])

    expect(page.locator("main")).to_contain_text("ValueError: no number")
    expect(page.locator("main")).to_contain_text("judge.py:3 in score")


def test_several_agents_have_lanes_and_a_tree(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task=DEBATE.task_id)["episode"])

    lanes = page.get_by_role("region", name="Agents side by side")
    assert lanes.get_by_role("heading").all_inner_texts() == ["solver", "critic", "scribe"]
    tree = page.get_by_role("tree")
    expect(tree.get_by_role("treeitem")).to_have_count(5)
    tree.get_by_role("treeitem", name=re.compile("of critic")).click()
    page.wait_for_url("**path=2*")


def test_a_finding_shows_its_evidence(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices", repeat=3)["episode"])

    expect(page.locator("main")).to_contain_text("wrong_toolcall")
    expect(page.locator("main")).to_contain_text("an addition where prices multiply")


def test_a_task_is_followed_over_the_steps(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task="prices")["task"])

    table = page.get_by_role("table", name="This task by step")
    expect(table.get_by_role("row")).to_have_count(8)
    expect(table).to_contain_text("checkpoint")
    expect(page.locator("main ins").first).to_be_visible()
    expect(page.locator("main del").first).to_be_visible()


def test_tasks_lead_to_their_pages(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/tasks")
    page.get_by_role("link", name=DEBATE.task_id).click()
    settle(page)

    expect(page.get_by_role("heading", level=1)).to_have_text(DEBATE.task_id)
    page.keyboard.press("]")
    page.wait_for_url(f"**/#/r/{run}/task/prices*")


def test_the_judge_is_shown_by_component(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/judge")

    for name in ("Reward", "answer", "format"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    page.get_by_role("link", name="judge_error").click()
    settle(page)
    expect(page.get_by_text("4 episodes")).to_be_visible()


def test_a_replay_shows_what_flipped(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, f"/r/{run}/judge")

    flips = page.get_by_role("table", name="Episodes whose verdict flipped")
    expect(flips.get_by_role("row")).to_have_count(6)
    flips.get_by_role("link", name="train/2/prices/0").click()
    page.wait_for_url(f"**/#/r/{run}/e/train%2F2%2Fprices%2F0*")


def test_the_parts_of_an_address_lead_back(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task=DEBATE.task_id, repeat=1)["tokens"])
    crumbs = page.get_by_role("navigation", name="Breadcrumbs")
    crumbs.get_by_role("link", name=re.compile("repeat 1")).click()
    page.wait_for_url("**/e/train%2F2%2Fanimals%2Fwhale%20%231%2F1*")
    crumbs.get_by_role("link", name=re.compile("step 2")).click()
    page.wait_for_url(f"**/#/r/{run}/g/train/2/animals%2Fwhale%20%231*")
    crumbs.get_by_role("link", name="marbles").click()
    page.wait_for_url(f"**/#/r/{run}")
    crumbs.get_by_role("link", name="Runs").click()
    page.wait_for_url("**/#/")
