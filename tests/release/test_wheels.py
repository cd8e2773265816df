"""What would be published: complete, well described, and enough by itself for the commands that the documents give."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
PLUGINS = tuple(sorted(path.name for path in (REPOSITORY / "plugins").glob("astuner-*")))
SOURCES = {"astuner-core": REPOSITORY / "astuner-core", **{name: REPOSITORY / "plugins" / name for name in PLUGINS}}
VERSION = runpy.run_path(str(REPOSITORY / "scripts" / "set_version.py"))["read_version"]()
MAJOR, MINOR = map(int, VERSION.split(".")[:2])
RANGE = f">={MAJOR}.{MINOR},<{MAJOR}.{MINOR + 1}"
WHOLE = "astuner"
"""The package that has no code and needs the others."""
USERS_OF_INTERNALS = ("astuner-devkit", "astuner-rollout-workers", "astuner-tools")
"""They use modules of core that are not public, so they fit one version of it."""
INSTALLING = re.compile(r'^(?: {4})?(pip install (?:"?astuner-core\b.*|astuner|astuner-devkit))$', re.MULTILINE)


def commands(document: Path) -> list[str]:
    return INSTALLING.findall(document.read_text(encoding="utf-8"))


PAGES = (".js", ".css", ".html", ".svg", ".txt")
"""What the pages of the viewer are made of."""

HEAVY = ("astuner-verl",)
"""What these commands would install takes gigabytes; `tox -e verl` installs it, without vLLM."""

FOLDERS = (REPOSITORY, REPOSITORY / "plugins" / WHOLE, *SOURCES.values())
COMMANDS = sorted({text for folder in FOLDERS for text in commands(folder / "README.md")})


def wheel_of(published: Path, name: str) -> Path:
    (wheel,) = published.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel


def record_of(wheel: Path) -> set[str]:
    """Return the files of a wheel with their hashes, less its own record."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))).decode()
    return {line for line in text.splitlines() if ".dist-info/RECORD" not in line}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    return HeaderParser().parsestr(text)


def requirements_of(published: Path, name: str) -> list[Requirement]:
    return [Requirement(line) for line in metadata(wheel_of(published, name)).get_all("Requires-Dist") or ()]


def brought_by(published: Path, names: set[str]) -> set[str]:
    """Return the packages of ours that some of them bring, themselves included."""
    needed = {requirement.name for name in names for requirement in requirements_of(published, name)}
    more = names | (needed & {*SOURCES, WHOLE})
    return names if more == names else brought_by(published, more)


class Installed:
    """A fresh environment, in which a command of a document was run, by uv or as it stands."""

    def __init__(self, home: Path, published: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "uv", "venv", "-q", "--seed", "--python", sys.executable, str(home)], check=True, timeout=120
        )
        self.home, self.report = home, home / "report.json"
        self.environment = {
            **os.environ,
            "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PIP_FIND_LINKS": f"{published} {os.environ.get('PIP_FIND_LINKS', '')}".strip(),
            "PIP_REPORT": str(self.report),
            "PIP_COMPILE": "0",  # to byte code, which takes longer than all the rest and is of no use here
            "UV_FIND_LINKS": f"{published},{os.environ.get('UV_FIND_LINKS', '')}".strip(","),
        }

    def call(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        program = str(self.home / "bin" / command[0])
        return subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home,
            check=False,
            timeout=timeout,
        )

    def pip_install(self, command: str, *, with_uv: bool = False) -> None:
        # Some loggers want older releases than everything else has.
        pins = "loggers.txt" if "astuner-loggers[" in command and "[tensorboard]" not in command else "base.txt"
        constraints = str(REPOSITORY / "constraints" / pins)
        self.environment |= {"PIP_CONSTRAINT": constraints, "UV_CONSTRAINT": constraints}
        words = shlex.split(command, comments=True)
        done = self.uv(*words) if with_uv else self.call(*words, timeout=1200)
        assert done.returncode == 0, done.stderr[-4000:]

    def uv(self, pip: str, action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Let uv do what a command asks of pip: the same packages in seconds."""
        command = [sys.executable, "-m", "uv", pip, action, "--python", str(self.home / "bin" / "python"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False, timeout=1200)

    def origins(self) -> dict[str, str]:
        """Return where each of our own packages was taken from, as pip reports it."""
        items = json.loads(self.report.read_text())["install"]
        found = {item["metadata"]["name"]: item["download_info"]["url"] for item in items}
        return {name: url for name, url in found.items() if name.startswith("astuner-")}

    def records(self) -> dict[str, set[str]]:
        """Return for each of our own packages the lines of its record: every file that came with it, and its hash."""
        (site,) = self.home.glob("lib/python*/site-packages")
        records = site.glob("astuner[-_]*.dist-info/RECORD")
        return {path.parent.name.split("-")[0].replace("_", "-"): set(path.read_text().splitlines()) for path in records}


def test_the_viewer_is_small_and_holds_its_pages_with_their_licences(published: Path):
    wheel, source = wheel_of(published, "astuner-logview"), SOURCES["astuner-logview"] / "src"
    assert wheel.stat().st_size < 400_000
    pages = {path.relative_to(source).as_posix() for path in source.rglob("static/**/*") if path.suffix in PAGES}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert len(pages) > 50
    assert pages <= names
    assert "astuner_logview/server/closed.html" in names


def test_every_package_has_a_source_distribution_and_a_wheel(published: Path):
    names = {name.replace("-", "_") for name in (*SOURCES, WHOLE)}
    assert {path.name.split("-")[0] for path in published.glob("*.whl")} == names
    assert {path.name.split("-")[0] for path in published.glob("*.tar.gz")} == names


def test_all_of_it_is_well_described(published: Path):
    files = [str(path) for path in published.iterdir() if path.name.endswith((".whl", ".tar.gz"))]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True, timeout=120)


@pytest.mark.parametrize("name", SOURCES)
def test_a_wheel_holds_every_file_of_its_sources(published: Path, name: str):
    source = SOURCES[name] / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    expected = {file for file in files if "__pycache__" not in file and not file.endswith(".pyc")}
    with zipfile.ZipFile(wheel_of(published, name)) as wheel:
        assert expected <= set(wheel.namelist())


@pytest.mark.parametrize("name", SOURCES)
def test_a_wheel_is_typed_and_licensed(published: Path, name: str):
    wheel = wheel_of(published, name)
    with zipfile.ZipFile(wheel) as archive:
        assert any(file.endswith("/py.typed") for file in archive.namelist())
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"


@pytest.mark.parametrize("name", [*SOURCES, WHOLE])
def test_a_wheel_has_a_bill_of_materials_with_all_that_it_requires(published: Path, name: str):
    wheel = wheel_of(published, name)
    with zipfile.ZipFile(wheel) as archive:
        (place,) = (file for file in archive.namelist() if ".dist-info/sboms/" in file)
        bill = archive.read(place).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    listed = {part["name"] for part in json.loads(bill)["components"]}
    assert {canonicalize_name(one.name) for one in requirements_of(published, name)} <= listed


def test_the_whole_brings_other_packages_and_no_code(published: Path):
    with zipfile.ZipFile(wheel_of(published, WHOLE)) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {f"astuner-{VERSION}.dist-info"}
    assert {requirement.name for requirement in requirements_of(published, WHOLE)} < set(SOURCES)


def test_the_test_kit_holds_the_scaffolds_of_plugins(published: Path):
    with zipfile.ZipFile(wheel_of(published, "astuner-devkit")) as wheel:
        assert any(name.startswith("astuner_devkit/scaffold/") and "pyproject" in name for name in wheel.namelist())


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_bounds_the_core(published: Path, name: str):
    (core,) = [requirement for requirement in requirements_of(published, name) if requirement.name == "astuner-core"]
    assert core.specifier == SpecifierSet(f"=={VERSION}" if name in USERS_OF_INTERNALS else RANGE)


@pytest.mark.parametrize("name", SOURCES)
def test_a_packages_readme_says_how_to_install_it(name: str):
    assert any(name in command for command in commands(SOURCES[name] / "README.md"))


@pytest.mark.parametrize("command", [command for command in COMMANDS if not any(name in command for name in HEAVY)])
def test_a_documented_command_installs_from_the_wheels_alone(published: Path, tmp_path: Path, command: str):
    made = Installed(tmp_path / "venv", published)
    made.pip_install(command, with_uv=True)
    named = {Requirement(word).name for word in shlex.split(command, comments=True)[2:]}
    brought = brought_by(published, named)
    assert set(made.records()) == brought
    assert all(record_of(wheel_of(published, name)) <= lines for name, lines in made.records().items())
    checked = made.uv("pip", "check")
    assert checked.returncode == 0, checked.stderr
    listed = made.call("astuner", "plugin", "list", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    rows = json.loads(listed.stdout)
    assert {row["dist"] for row in rows} == brought - {WHOLE}
    assert [row["name"] for row in rows if row["problem"]] == []


def test_core_alone_answers_and_names_what_brings_a_trainer(published: Path, tmp_path: Path):
    made = Installed(tmp_path / "venv", published)
    made.pip_install("pip install astuner-core")
    assert set(made.origins()) == {"astuner-core"}
    assert all(url.startswith("file://") for url in made.origins().values())
    assert made.call("pip", "check").stdout == "No broken requirements found.\n"
    (tmp_path / "run.yaml").write_text("astuner: {model: {path: some/model}, rollout: {user_workflow: './a.py:A'}}\n")
    brings = {"debug": "'astuner-core[rollout]'", "local": "astuner-local", "verl": "astuner-verl", "trinity": "astuner-trinity"}
    for backbone, package in brings.items():
        refused = made.call("astuner", "run", "--conf", str(tmp_path / "run.yaml"), "--backbone", backbone)
        assert refused.returncode == 2
        assert f"pip install {package}" in refused.stderr
        assert "Traceback" not in refused.stderr
