"""The form that writes a configuration: what it writes, the command line accepts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import environment
from playwright.sync_api import Locator, Page, expect
from viewer import Viewer
from viewer_pages import open_page

AGENT = """from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class MyAgent(Workflow):
    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        return WorkflowOutput()
"""
JUDGE = """class MyJudge:
    def compute_reward(self, workflow_task, workflow_output):
        return 1.0
"""
PASTED = """astuner:
  # Kept as it is.
  project_name: shop
  backbone: debug
  model: {path: ./model}
  rollout: {user_workflow: "./agent.py:MyAgent"}  # and this
  task_reader:
    type: dataset_file
    dataset_file: {training: {file_path: ./tasks/train.jsonl}}
  task_judge: {judge_type: customized_protocol, judge_protocol: "./judge.py:MyJudge"}
"""


@pytest.fixture
def form(page: Page, viewer: Viewer) -> Page:
    """The page, once it has its schema, which takes seconds to make."""
    return open_page(page, viewer, "/configuration")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What the page's example names."""
    for name, text in (
        ("agent.py", AGENT),
        ("judge.py", JUDGE),
        ("tasks/train.jsonl", '{"main_query": "1+1?", "task_id": "one"}\n'),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "model").mkdir()
    return tmp_path


def yaml_box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="YAML of the configuration")


def set_key(page: Page, key: str, value: str) -> None:
    box = page.get_by_role("textbox", name=key, exact=True)
    box.fill(value)
    box.press("Tab")
    expect(yaml_box(page)).to_have_value(re.compile(f"{key}: {value}"))


def test_what_the_form_writes_is_accepted_by_the_command_line(form: Page, project: Path) -> None:
    form.get_by_label("Start from an example").select_option("One machine")
    form.get_by_role("combobox", name="backbone", exact=True).select_option("debug")
    set_key(form, "seed", "7")
    set_key(form, "project_name", "shop")
    form.get_by_role("button", name="Trainer common").click()
    set_key(form, "total_training_steps", "12")

    text = yaml_box(form).input_value()

    written = yaml.safe_load(text)["astuner"]
    # A key that has its default is not written.
    assert (written["seed"], written["project_name"], written.get("backbone", "debug")) == (7, "shop", "debug")
    assert written["trainer_common"]["total_training_steps"] == 12
    validate(project, text)


def test_each_section_shows_its_description_and_the_defaults_of_its_keys(form: Page) -> None:
    schema = read_schema()
    sections = {name: section for name, section in list_properties(schema, "astuner").items() if section.get("properties")}
    assert len(sections) > 8
    shown = 0
    for name, section in sections.items():
        form.get_by_role("button", name=re.compile(rf"^{name.replace('_', ' ')}\b", re.IGNORECASE)).click()
        heading = form.get_by_role("heading", level=2, name=name.replace("_", " "))
        expect(heading).to_be_visible()
        assert heading.locator("xpath=following-sibling::p").inner_text() == section["description"].replace("`", "")
        for key, known in section["properties"].items():
            default = known.get("default")
            if isinstance(default, int | float) and not isinstance(default, bool) and not known.get("deprecated"):
                box = form.get_by_role("textbox", name=key, exact=True).first
                assert float(box.get_attribute("placeholder") or "nan") == default, f"{name}.{key}"
                shown += 1
    assert shown > 20


def test_comments_of_a_pasted_file_survive_a_change(form: Page, project: Path) -> None:
    yaml_box(form).fill(PASTED)
    set_key(form, "seed", "9")

    text = yaml_box(form).input_value()

    before = yaml.safe_load(PASTED)["astuner"]
    assert yaml.safe_load(text)["astuner"] == {**before, "seed": 9}
    assert "# Kept as it is." in text
    assert "# and this" in text
    validate(project, text)


def test_a_key_is_reset_to_its_default(form: Page) -> None:
    yaml_box(form).fill(PASTED)
    form.get_by_role("button", name=re.compile("Reset.*project_name")).click()

    expect(yaml_box(form)).not_to_have_value(re.compile("project_name"))


def test_a_mistake_is_named_with_its_line_and_remedy(form: Page) -> None:
    yaml_box(form).fill(PASTED + "  sead: 3\n")

    found = form.get_by_role("region", name="YAML", exact=True)
    expect(found).to_contain_text("did you mean 'seed'", ignore_case=True)
    expect(found).to_contain_text("11")


def test_what_each_backbone_makes_of_it_is_shown(form: Page) -> None:
    yaml_box(form).fill(PASTED)

    result = form.get_by_role("region", name="What each backbone makes of it")
    expect(result).to_contain_text("user_workflow")


def test_keys_are_searched(form: Page) -> None:
    form.get_by_role("searchbox", name="Search keys").fill("temperature")

    expect(form.get_by_role("textbox", name=re.compile("temperature")).first).to_be_visible()
    expect(form.get_by_role("textbox", name="project_name", exact=True)).to_have_count(0)


def read_schema() -> Any:
    command = [sys.executable, "-m", "astuner", "config", "schema"]
    return json.loads(subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout)


def list_properties(schema: Any, name: str) -> dict[str, Any]:
    """Return the properties of a definition, each with what it refers to."""
    found = {}
    for key, given in schema["definitions"][name]["properties"].items():
        reference = given.get("$ref") or next((part["$ref"] for part in given.get("allOf", ()) if "$ref" in part), "")
        if not given.get("deprecated") and not given.get("doNotSuggest"):
            found[key] = {**schema["definitions"].get(reference.rpartition("/")[2], {}), **given}
    return found


def validate(folder: Path, text: str) -> None:
    """Hold a text to `astuner config validate`, with an engine that needs no other package."""
    (folder / "tune.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "astuner", "config", "validate", "--conf", "tune.yaml", "--set", "rollout.name=scripted"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
