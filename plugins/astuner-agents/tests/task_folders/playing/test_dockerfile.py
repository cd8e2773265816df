"""What a Dockerfile says, without building it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_agents.task_folders.playing.dockerfile import ImageRecipe, read_dockerfile


def read(home: Path, text: str) -> ImageRecipe:
    (home / "Dockerfile").write_text(text)
    return read_dockerfile(home / "Dockerfile")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "data/one.csv", "data/deep/two.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_directories_variables_and_the_user_are_read(context: Path) -> None:
    text = """# syntax=docker/dockerfile:1
    FROM --platform=linux/amd64 python:3.12 AS base
    LABEL a=b
    ENV ONE=1 TWO="a b"
    ENV THREE some words
    WORKDIR /app
    WORKDIR inner
    USER agent
    CMD ["bash"]
    """
    found = read(context, text)
    assert (found.base, found.workdir, found.user) == ("python:3.12", "/app/inner", "agent")
    assert found.env == {"ONE": "1", "TWO": "a b", "THREE": "some words"}
    assert (found.files, found.needs_build) == ({}, None)


@pytest.mark.parametrize(
    ("copy", "targets"),
    [
        ("COPY a.txt /x/renamed.txt", ["/x/renamed.txt"]),
        ("COPY a.txt /x/", ["/x/a.txt"]),
        ("COPY a.txt .", ["/app/a.txt"]),
        ("COPY ./a.txt b.txt ./", ["/app/a.txt", "/app/b.txt"]),
        ("COPY *.txt /x/", ["/x/a.txt", "/x/b.txt"]),
        ("COPY data /x", ["/x/deep/two.csv", "/x/one.csv"]),
        ("COPY data/ ./", ["/app/deep/two.csv", "/app/one.csv"]),
        ('COPY ["a.txt", "/x/a b.txt"]', ["/x/a b.txt"]),
        ("ADD --chown=1:1 a.txt \\\n    # a comment\n    /x/", ["/x/a.txt"]),
    ],
)
def test_files_are_copied_as_docker_does(context: Path, copy: str, targets: list[str]) -> None:
    found = read(context, f"FROM a\nWORKDIR /app\n{copy}\n")
    assert (sorted(found.files), found.needs_build) == (targets, None)
    assert all(path.is_relative_to(context) for path in found.files.values())


@pytest.mark.parametrize(
    "line",
    [
        "RUN make",
        "COPY --from=base /a /b",
        "COPY ../outside .",
        "COPY missing .",
        "COPY $NAME .",
        "COPY 'a",
        "ADD https://example.com/a.tgz /",
        "ENV PATH=/x:$PATH",
        "WORKDIR $HOME",
        "FROM second",
        "ONBUILD RUN a",
        "NONSENSE",
    ],
)
def test_the_first_line_that_needs_a_build_is_named(context: Path, line: str) -> None:
    found = read(context, f"FROM a\n\nWORKDIR /app\n{line}\nRUN later\n")
    assert (found.needs_build, found.workdir) == (f"line 4: {line}", "/app")


@given(st.text(alphabet="FROMUNCPYADEVWKI \n\\#$\"'[]{}=/.abc-", max_size=200))
def test_no_text_raises(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.getbasetemp() / "dockerfiles"
    home.mkdir(exist_ok=True)
    read(home, text)
