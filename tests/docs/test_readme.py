"""Every command block of the README is run; what CI itself runs is in `tests/house/test_documents.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from page_commands import Bash, read_blocks

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"


def test_the_first_command_tunes_an_agent_on_a_bare_machine(clone: Path, first_command_said: str):
    assert "before" in first_command_said
    assert "after" in first_command_said
    rows = [json.loads(line) for line in (clone / "my-agent/launcher_record/calculator/metrics.jsonl").open()]
    rewards = [row["val/reward/mean"] for row in rows if row["kind"] == "validation"]
    assert rewards[0] <= 0.2
    assert rewards[-1] >= 0.85


def test_the_first_command_says_how_to_see_its_curves(clone: Path, first_command_said: str, activated_bash: Bash):
    after = first_command_said.partition("\n  cd my-agent\n")[2]
    assert "\n  tensorboard --logdir launcher_record " in after
    # What the command reads.
    script = (
        "from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer\n"
        "print(*EventMultiplexer().AddRunsFromDirectory('launcher_record').Reload().Runs())"
    )
    assert activated_bash(f'python -c "{script}"', clone / "my-agent").split()[-1] == "calculator"


def test_the_run_of_the_first_command_can_be_looked_at(clone: Path, first_command_said: str, activated_bash: Bash):
    home = clone / "my-agent"
    after = first_command_said.partition("\n  cd my-agent\n")[2]
    look = "astuner episodes calculator --step 20 --lowest 1"
    assert f"\n  {look} " in f"\n{after}"
    shown = activated_bash(look, home)
    assert shown.startswith("episode train/20/")
    assert "\n  reward " in shown
    assert "finished" in activated_bash("astuner runs", home)
    assert "equal in 64" in activated_bash("astuner compare calculator launcher_record/calculator", home)
    script = "import astuner; run = astuner.Run('launcher_record/calculator'); print(len(run.read_rows()), run.state.status)"
    assert activated_bash(f'python -c "{script}"', home).endswith(" finished\n")


def test_the_run_of_the_first_command_is_shown_in_the_browser(clone: Path, first_command_said: str, activated_bash: Bash):
    after = first_command_said.partition("\n  cd my-agent\n")[2]
    (look,) = re.findall(r"^  (astuner logview .*?)  +#", after, re.MULTILINE)
    serve = f"{look} --no-open > said.txt & until grep -q http://127.0.0.1 said.txt; do kill -0 $!; sleep 0.2; done; kill $!"
    activated_bash(serve, clone / "my-agent")
    shown = activated_bash("astuner episodes calculator --step 20 --lowest 1", clone / "my-agent")
    episode = shown.split()[1].rstrip(":")
    activated_bash(f"astuner logview export calculator --episode {episode} --out worst.html", clone / "my-agent")
    # Its texts are packed; tests/logview opens such a file in a browser.
    assert (clone / "my-agent/worst.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("first_command_said")
def test_the_python_examples_of_the_readme_play_an_episode(clone: Path, activated_bash: Bash):
    workflow, judge = read_blocks(README, "python")
    (config,) = read_blocks(README, "yaml")
    home = clone / "own"
    home.mkdir()
    (home / "agent.py").write_text(workflow)
    (home / "judge.py").write_text(judge)
    (home / "tune.yaml").write_text(config)
    for name in ("train", "validation"):
        (home / f"{name}.jsonl").write_text('{"question": "two and two?", "answer": "4"}\n')
    said = activated_bash("astuner run --conf tune.yaml --backbone debug --set model.path=../my-agent/model", home)
    assert "two and two?" in said
