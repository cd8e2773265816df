from __future__ import annotations

from pathlib import Path

import pytest

from astuner.cli import exit_code_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the command is typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_package_is_written_where_the_command_is_typed(here: Path) -> None:
    assert exit_code_of(["plugin", "new", "judge", "acme-judge"]) == 0
    assert "class AcmeJudge:" in (here / "acme-judge" / "src" / "acme_judge.py").read_text()


def test_it_says_what_was_written_and_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["plugin", "new", "judges", "acme-judge", "--name", "strict"])
    assert capsys.readouterr().out == (
        "acme-judge/\n"
        "  README.md\n"
        "  pyproject.toml\n"
        "  src/acme_judge.py\n"
        "  tests/test_acme_judge.py\n"
        "\n"
        "next:\n"
        "  pip install -e './acme-judge[test]'\n"
        "  pytest acme-judge\n"
        "  astuner plugin check acme-judge\n"
        "\n"
        "and to use it:\n"
        "  astuner:\n"
        "    task_judge:\n"
        "      judge_type: strict\n"
        "      strict:\n"
        "        ignore_case: true\n"
    )


def test_another_directory_can_be_chosen(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my plugins").mkdir()
    assert exit_code_of(["plugin", "new", "hooks", "acme-timing", "--dir", "my plugins"]) == 0
    assert (here / "my plugins" / "acme-timing" / "pyproject.toml").exists()
    assert "pip install -e './my plugins/acme-timing[test]'\n  pytest 'my plugins/acme-timing'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["juge", "acme-judge"], ["judge", "acme judge"], ["judge", "acme-judge", "--name", "judge_type"], ["judge", "taken"]],
)
def test_what_cannot_be_done_is_a_usage_error_and_writes_nothing(here: Path, arguments: list[str]) -> None:
    (here / "taken").mkdir()
    (here / "taken" / "file").touch()
    assert exit_code_of(["plugin", "new", *arguments]) == 2
    assert sorted(path.name for path in here.rglob("*")) == ["file", "taken"]


def test_a_second_time_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["plugin", "new", "judge", "acme-judge"])
    (here / "acme-judge" / "README.md").write_text("mine")
    assert exit_code_of(["plugin", "new", "judge", "acme-judge"]) == 2
    assert (here / "acme-judge" / "README.md").read_text() == "mine"
    assert "acme-judge: holds 'README.md' and 3 more, and nothing is overwritten" in capsys.readouterr().err
