"""`astuner logview export`, on a real run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up_run import PRICES, RunWriter, make_groups

from astuner.contract.errors import UsageError
from astuner_logview.commands import logview

GROUP = f"train/1/{PRICES.task_id}"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    record = tmp_path_factory.mktemp("runs") / "launcher_record"
    run = RunWriter(record / "shop")
    run.write_step(1, make_groups(1))
    run.close()
    return record


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(record.parent)
    return tmp_path


def export(*arguments: str) -> str:
    result = CliRunner().invoke(logview, ["export", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize(
    ("suffix", "begins"), [("html", "<!doctype html>\n"), ("md", f"# Group `{PRICES.task_id}`, step 1 of train\n")]
)
def test_a_group_of_a_run_is_written_by_the_name_of_the_run(home: Path, suffix: str, begins: str) -> None:
    out = home / f"group.{suffix}"
    said = export("shop", "--group", GROUP, "--out", str(out))
    assert out.read_text(encoding="utf-8").startswith(begins)
    assert said == f"{out}: {out.stat().st_size:,} bytes\n"


@pytest.mark.parametrize(("suffix", "begins"), [("html", "<!doctype html>\n"), ("md", f"# Episode `{GROUP}/0`")])
def test_an_episode_is_written_by_its_id(home: Path, record: Path, suffix: str, begins: str) -> None:
    out = home / f"episode.{suffix}"
    export(str(record / "shop"), "--episode", f"{GROUP}/0", "--out", str(out))
    assert out.read_text(encoding="utf-8").startswith(begins)


def test_a_task_in_markdown_has_every_sibling(home: Path) -> None:
    export("shop", "--group", GROUP, "--out", str(home / "group.md"))
    text = (home / "group.md").read_text(encoding="utf-8")
    assert PRICES.main_query in text
    assert [line for line in text.splitlines() if line.startswith("## Repeat ")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "x.html"], "give either --group SPLIT/STEP/TASK or --episode ID"),
        (["--group", GROUP, "--episode", "e", "--out", "x.html"], "give either"),
        (["--group", GROUP, "--out", "x.pdf"], "must end in .html or .md"),
        (["--group", "train/one/t", "--out", "x.html"], "write SPLIT/STEP/TASK"),
        (["--group", "test/1/t", "--out", "x.html"], "is not a split"),
        (["--group", "train/1/nothing", "--out", "x.html"], "there is no group of the task 'nothing'"),
        (["--episode", "train/1/nothing/0", "--out", "x.md"], "there is no episode"),
        (["--group", GROUP, "--out", "no/such/directory/x.md"], "there is no directory"),
    ],
)
def test_what_cannot_be_written_says_why(arguments: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        export("shop", *arguments)
