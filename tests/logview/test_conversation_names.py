"""The conversations of an agent that holds several, such as a coding agent with a sub-agent, are named on its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_page import Watch, open_address, open_context
from made_up_run import TOOLS, RunWriter
from playwright.sync_api import Browser, Page, expect
from recorded_conversation import Conversation, make_episode, tool_call
from viewer import Viewer, quoted, start_viewer
from viewer_pages import find_run, open_page

from astuner.contract.schema import Group, Task, Verdict, WorkflowOutput

TASK = Task("Write hello.txt", task_id="hello")
EPISODE = quoted("train/1/hello/0")


def ask(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


def write_coding_run(path: Path) -> None:
    """Write a run of one episode: a main line of three calls, a title, a sub-agent that says more, and a retry."""
    says = Conversation(seed=1)
    delegated = {"role": "assistant", "content": "", "tool_calls": [tool_call("calculator", "{}")]}
    first = says.ask(ask("Write hello.txt"), delegated, tools=TOOLS)
    says.ask(ask("A title, please"), {"role": "assistant", "content": "A file"})
    sub = says.ask(ask("Write the file. " * 40), {"role": "assistant", "content": "I write."}, tools=TOOLS)
    says.ask(ask("written"), {"role": "assistant", "content": "Done. " * 40}, after=sub)
    second = says.ask(ask("it is there"), {"role": "assistant", "content": "I look."}, after=first)
    says.ask(ask("hello"), {"role": "assistant", "content": "It is written."}, after=second)
    says.ask([], {"role": "assistant", "content": "I look again."}, after=second, again=True)
    episode = make_episode(says, TASK, step=1, repeat=0, output=WorkflowOutput(), verdict=Verdict(reward=1.0))
    run = RunWriter(path, planned=1)
    run.write_step(1, [Group(task=TASK, step=1, split="train", episodes=(episode,))])
    run.write_checkpoint(1)
    run.close()


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    write_coding_run(tmp_path / "launcher_record/coding")
    with start_viewer(tmp_path / "launcher_record", cache=tmp_path / "cache") as viewer:
        yield viewer


@pytest.fixture
def coding(browser: Browser, viewer: Viewer, watch: Watch) -> Iterator[Page]:
    """The page of the episode."""
    with open_context(browser, watch, storage_state=open_address(browser, viewer)) as window:
        run = find_run(window, viewer, "coding")
        yield open_page(window.new_page(), viewer, f"/r/{run}/e/{EPISODE}")


def test_the_page_of_an_episode_names_its_conversations(coding: Page) -> None:
    tree = coding.get_by_role("tree")
    assert tree.locator(".tree-agent").all_text_contents() == ["main line", "side call", "side conversation"]
    expect(tree.get_by_role("treeitem", name=re.compile("Call 6 of solver, branch of call 4:"))).to_be_visible()
    options = coding.get_by_label("Path").locator("option").all_text_contents()
    assert [re.sub(r".*tokens, |\)", "", text) for text in options] == [
        "side call",
        "side conversation",
        "main line",
        "branch of call 4",
    ]


def test_the_main_line_is_shown_first_and_each_turn_that_begins_one_says_so(coding: Page) -> None:
    turns = coding.locator(".turn")
    assert [one.get_attribute("id") for one in turns.all()] == ["turn-0", "turn-4", "turn-5"]
    expect(turns.first.locator(".call-facts")).to_contain_text("main line")
    expect(turns.last.locator(".call-facts")).not_to_contain_text("main line")
    coding.get_by_label("Path").select_option("3")
    expect(coding.locator("#turn-2 .call-facts")).to_contain_text("side conversation")


def test_a_path_of_tokens_is_named(coding: Page) -> None:
    coding.locator("#turn-0 .call-facts").get_by_role("link", name="Tokens").click()
    coding.wait_for_selector(".token-bar strong")
    expect(coding.get_by_label("Path").locator("option:checked")).to_contain_text("main line")
