"""Tasks of one's own, as a fresh user brings them: twenty demonstrations, a tiny model, a judge, and the README at hand.

One tutorial is followed to its end, in a quarter of its steps, and looked at from all sides; of the others, the models are
made and the first steps are taken. What this hides is how far they come: see `test_a_new_model_earns_most_of_the_reward`,
which is slow.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import REPOSITORY
from page_commands import Bash, read_blocks

TUTORIALS = {"support_tickets": "tickets", "opposites": "opposites", "robot": "robot"}
"""With the names of their runs. They have twenty demonstrations each."""
GALLERY = ("learn_to_ask", "frozen_lake", "werewolves")
"""With hundreds of demonstrations; `benchmarks/gallery.py` says how far they come."""
WHOLE = "support_tickets"
STEPS = 30
"""Of its 120, at a learning rate that falls as much faster; the reward rises from 0.58 to 0.80."""
SEEDS = (0, 1, 2)
DATA = ("demos.jsonl", "train.jsonl", "validation.jsonl")
RUN = "astuner run --conf tune.yaml"
MADE = shutil.ignore_patterns("launcher_record", "model", "tuned")
ANY = re.compile("")
TRAINS = re.compile(r"^astuner (run|warm-start)\b")
EPOCHS = re.compile(r"(--epochs )\d+")
STEP = re.compile(r"(--step )\d+")
"""The last one, whose episodes are shown."""

STRICTER = """
class NoBilling:
    def compute_reward(self, workflow_task, workflow_output):
        queue = workflow_output.metadata["queue"]
        right = queue == workflow_task.task.metadata["queue"]
        return (0.5 if queue == "billing" else 1.0) * right, right
"""

LOAD = """
import json
from agent import ROUTE, SYSTEM_PROMPT
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained("tuned"), AutoTokenizer.from_pretrained("tuned")
tickets = [json.loads(line) for line in open("validation.jsonl")]
right = 0
for ticket in tickets:
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": ticket["main_query"]}]
    text = tokenizer.apply_chat_template(messages, tools=[ROUTE], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    said = tokenizer.decode(model.generate(input_ids=ids, max_new_tokens=32, do_sample=False)[0, ids.shape[1]:])
    right += json.dumps({"name": "route", "arguments": {"queue": ticket["queue"]}}) in said
print(f"{right} of {len(tickets)} are right")
"""

Follow = Callable[..., Path]


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def read_validation_rewards(home: Path) -> list[float]:
    """The rewards of the new model, of the warm-started one, and of the later ones."""
    name = TUTORIALS[home.name]
    runs = (home / "launcher_record" / run for run in (f"{name}-warm-start-before.eval", name))
    rows = [row for run in runs for row in read_rows(run / "metrics.jsonl")]
    return [row["val/reward/mean"] for row in rows if "val/reward/mean" in row]


@pytest.fixture(scope="module")
def follow(bash: Bash, tmp_path_factory: pytest.TempPathFactory) -> Follow:
    """Runs the commands of a tutorial in a copy of it, all or some; returns where: `follow("robot", steps=2, only=TRAINS)`."""

    def run(name: str, *, steps: int | None = None, seed: int = 0, only: re.Pattern[str] = ANY) -> Path:
        home = tmp_path_factory.mktemp(name) / name
        shutil.copytree(REPOSITORY / "tutorial" / name, home, ignore=MADE)
        settings = f"--set seed={seed}" + (f" --set trainer_common.total_training_steps={steps}" if steps else "")
        commands = read_blocks(home / "README.md", "bash")
        assert any(RUN in command for command in commands)
        for command in commands:
            if only.match(command):
                shortened = STEP.sub(rf"\g<1>{steps}", command) if steps else command
                before = " --validate-before" if "warm-start" in command else ""
                bash(TRAINS.sub(rf"\g<0>{before} {settings}", shortened), home)
        return home

    return run


@pytest.fixture(scope="module")
def tickets(follow: Follow) -> Path:
    """The tutorial that is followed to its end."""
    return follow(WHOLE, steps=STEPS)


def test_twenty_demonstrations_and_a_judge_make_a_new_model_earn_more_of_the_reward(tickets: Path):
    untrained, warm_started, *_, tuned = read_validation_rewards(tickets)
    assert untrained <= 0.2
    assert warm_started >= 0.4
    assert tuned >= warm_started + 0.1


def test_the_run_can_be_looked_at(tickets: Path, bash: Bash):
    assert bash("astuner episodes tickets --step 20 --lowest 1", tickets).startswith("episode train/20/")
    assert re.search(r"tickets +finished +30 of 30", bash("astuner runs", tickets))


def test_the_run_can_be_compared_with_another(tickets: Path, bash: Bash):
    settings = "--set seed=1 --set experiment_name=second --set trainer_common.total_training_steps=2"
    bash(f"{RUN} {settings}", tickets)
    said = bash("astuner compare tickets second", tickets)
    assert re.search(r"seed +0 +1", said)
    assert "reward/mean" in said


def test_a_stricter_judge_scores_the_run_again(tickets: Path, bash: Bash):
    (tickets / "stricter.py").write_text(STRICTER, encoding="utf-8")
    command = "astuner replay tickets --conf tune.yaml --judge ./stricter.py:NoBilling --json 2>/dev/null"
    report = json.loads(bash(command, tickets))
    stricter, stored = (report["splits"][0]["agreement"][name] for name in ("new_reward", "stored_reward"))
    assert 0 < stricter < stored


def test_the_tuned_model_is_one_that_transformers_loads(tickets: Path, bash: Bash):
    said = bash(f"python - <<'E'\n{LOAD}E", tickets)
    found = re.search(r"^(\d+) of (\d+) are right$", said, re.MULTILINE)
    assert found is not None, said
    # Two forward passes that differ in rounding may choose differently where two tokens are as likely.
    assert int(found[1]) / int(found[2]) == pytest.approx(read_validation_rewards(tickets)[-1], abs=0.05)


@pytest.mark.parametrize("name", [name for name in TUTORIALS if name != WHOLE])
def test_the_commands_of_the_other_tutorials_run(name: str, follow: Follow):
    untrained, _, *later = read_validation_rewards(follow(name, steps=2, only=TRAINS))
    assert untrained <= 0.2
    assert later


@pytest.mark.parametrize("name", GALLERY)
def test_the_commands_of_the_gallery_run(name: str, bash: Bash, tmp_path: Path):
    home = Path(shutil.copytree(REPOSITORY / "tutorial" / name, tmp_path / name, ignore=MADE))
    for command in read_blocks(home / "README.md", "bash"):
        steps = " --set trainer_common.total_training_steps=1" if RUN in command else ""
        bash(EPOCHS.sub(r"\g<1>1", command) + steps, home)
    rows = read_rows(home / "launcher_record" / name / "metrics.jsonl")
    assert [row["step"] for row in rows if "val/success/rate" in row] == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_new_model_earns_most_of_the_reward(name: str, seed: int, follow: Follow):
    untrained, *_, tuned = read_validation_rewards(follow(name, seed=seed))
    assert untrained <= 0.2
    assert tuned >= 0.8


@pytest.mark.parametrize("name", [*TUTORIALS, *GALLERY])
def test_the_script_writes_the_data(name: str, bash: Bash, tmp_path: Path):
    tutorial = REPOSITORY / "tutorial" / name
    home = Path(shutil.copytree(tutorial, tmp_path / name, ignore=MADE))
    for file in DATA:
        (home / file).unlink()
    bash("python write_data.py", home)
    assert [(home / file).read_bytes() for file in DATA] == [(tutorial / file).read_bytes() for file in DATA]


def test_no_wish_of_the_validation_is_trained():
    tasks, new = (read_rows(REPOSITORY / "tutorial" / "learn_to_ask" / file) for file in DATA[1:])
    # What a guest says first hides some of it: the openings are alike.
    assert not {json.dumps(row["wish"]) for row in new} & {json.dumps(row["wish"]) for row in tasks}


@pytest.mark.parametrize("name", [*TUTORIALS, *(name for name in GALLERY if name != "learn_to_ask")])
def test_no_task_of_the_validation_is_trained_or_demonstrated(name: str):
    demonstrations, tasks, new = (read_rows(REPOSITORY / "tutorial" / name / file) for file in DATA)
    assert len(demonstrations) == 20 or name in GALLERY
    shown = {row["messages"][1]["content"] for row in demonstrations}
    known = {row["main_query"] for row in tasks}
    assert not {row["main_query"] for row in new} & (shown | known)
