"""`docs/plugins.md` is followed from its first block to its last: files are written, commands are run, outputs are compared."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from page_commands import BLOCK, Bash, read_blocks

REPOSITORY = Path(__file__).parents[2]
DOCUMENT = REPOSITORY / "docs" / "plugins.md"
SKILL = REPOSITORY / "skills" / "publish-a-plugin" / "SKILL.md"
EXAMPLES = sorted((REPOSITORY / "tutorial" / "plugins").glob("*/README.md"))

FILE = re.compile(r"# ([\w./-]+\.\w+)\n")


def follow(document: Path, home: Path, bash: Bash) -> int:
    """Do what a document says in an empty directory; return how many commands were run.

    `python` and `yaml` blocks become the file that their first line names, a `diff` is applied, `bash` is run. Each line of a
    `text` must stand in the output of the command before it, and a `toml` in some file that is there.
    """
    said, commands = "", 0
    for language, text in BLOCK.findall(document.read_text(encoding="utf-8")):
        match language:
            case "bash":
                said, commands = bash(text, home), commands + 1
            case "text":
                missing = [line for line in text.splitlines() if _plain(line) not in _plain(said)]
                assert not missing, f"not in the output: {missing}\n{said}"
            case "diff":
                (home / "edit.diff").write_text(text)
                bash("git apply edit.diff && rm edit.diff", home)
            case "python" | "yaml":
                named = FILE.match(text)
                assert named, f"names no file: {text}"
                file = home / named[1]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            case "toml":
                assert [file for file in home.rglob("*.toml") if text in file.read_text(encoding="utf-8")], f"in no file: {text}"
            case _:
                raise AssertionError(f"nothing is done with a block in {language}:\n{text}")
    return commands


def _plain(text: str) -> str:
    """Return a text without what depends on the width of columns."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def bash(first_command_said: str, activated_bash: Bash, clone: Path) -> Bash:
    """Runs a script where `astuner-devkit` is installed from the clone, since no index has it."""
    activated_bash("python -m pip install -q ./plugins/astuner-devkit", clone)
    return activated_bash


def test_the_page_can_be_followed_from_an_empty_directory(tmp_path: Path, bash: Bash):
    assert follow(DOCUMENT, tmp_path, bash) >= 10


def test_the_skill_for_agents_can_be_followed_too(tmp_path: Path, bash: Bash):
    blocks = re.findall(r"^ {3}```bash\n(.*?)^ {3}```$", SKILL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    said = [bash(textwrap.dedent(block), tmp_path) for block in blocks]
    assert '"passed": true' in said[2]
    assert "PASSED" in said[3]


def test_the_edit_of_the_page_is_as_short_as_it_says():
    (edit, *_) = [text for language, text in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")) if language == "diff"]
    changed = [line for line in edit.splitlines() if re.match(r"[+-](?![+-])", line)]
    assert 0 < len(changed) <= 15


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_is_installed_by_its_command_and_keeps_its_contract(document: Path, clone: Path, bash: Bash):
    for command in read_blocks(document, "bash"):
        bash(command, clone)
    said = bash(f"astuner plugin check {document.parent.name}", clone)
    assert " 0 failed" in said
