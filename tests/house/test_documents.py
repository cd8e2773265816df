"""The README's commands are those that CI runs, and no document names a file that does not exist."""

from __future__ import annotations

import re
import subprocess
import tomllib

from harness import REPOSITORY

README = REPOSITORY / "README.md"
WHOLE = REPOSITORY / "plugins" / "astuner"
SEE, TEST = re.findall(r"^```bash\n(.*?)\n```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_readme_has_one_command_to_see_it_work_and_one_for_the_tests():
    assert "astuner quickstart my-agent" in SEE
    assert "&& tox " in TEST


def test_ci_runs_the_readmes_test_command():
    assert TEST in map(str.strip, (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines())


def test_the_first_command_installs_what_the_package_astuner_needs():
    lines = (WHOLE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    folders = {line.removeprefix("./").removeprefix("plugins/") for line in lines if line.startswith("./")}
    project = tomllib.loads((WHOLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert folders == {project["name"], *(needed.partition(">")[0] for needed in project["dependencies"])}


def test_no_document_names_a_file_that_is_not_there():
    # Asked of git: environments that are installed beside these tests make and remove directories all the time.
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    documents = [REPOSITORY / name for name in listed.splitlines() if (REPOSITORY / name).is_file()]
    assert README in documents
    for document in documents:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document}: {target}"


def test_no_document_reads_an_answer_that_may_be_null():
    listed = ["README.md", "docs/*.md", "docs/coming_from/*.md", "docs/examples/*.py", "tutorial/*.md", "tutorial/*.py"]
    command = ["git", "grep", "-nE", r"message\.content\b|get_text_content\(\)|return .*reply\[.content.\]", "--", *listed]
    lines = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    # Code of other trainers, as it is there.
    theirs = ("self.task.raw_task", "response.get_text_content() == task")
    assert [line for line in lines if 'or ""' not in line and not any(text in line for text in theirs)] == []
