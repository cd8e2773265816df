"""What reaches each environment of tox, as paths of git, and digests of it."""

from __future__ import annotations

import ast
import configparser
import hashlib
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
NAMED = re.compile(r"\{tox_root\}/([\w./-]+)")
OWN_PACKAGE = re.compile(r"astuner[\w-]*")
REFERENCE = re.compile(r"\{\[([^\]]+)\](\w+)\}")
Sections = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment of tox, and the git pathspecs of what reaches it."""

    name: str
    description: str
    section: Mapping[str, str]
    """Its settings in `tox.ini`, with what it inherits."""
    reach: Sequence[str]
    long_reach: Sequence[str] = ()
    """Of an engine: what reaches the real one."""
    always: bool = False
    """Whether it runs whatever has changed."""
    waits: bool = False
    """Whether it mostly waits for the network, so that it can run beside two others."""

    def digest(self) -> str:
        """Return a digest of its settings and of every tracked file that reaches it."""
        return _digest(self.section, self.reach)

    def long_digest(self) -> str:
        """Return the same for the real engine."""
        return _digest(self.section, self.long_reach)

    def files(self) -> Sequence[str]:
        """Return the tracked files that reach it."""
        return list_files(tuple(self.reach))

    def uncommitted(self) -> str:
        """Return what git reports of files that reach it."""
        command = ["git", "status", "--porcelain", "--", *self.reach, "tox.ini"]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


def read_environments() -> Mapping[str, Environment]:
    """Return the environments that CI runs, in the order in which it starts them."""
    rules = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))
    sections = read_sections()
    listed = [name.strip() for name in sections["tox"]["env_list"].split(",")]
    return {name: _read_environment(name, sections, rules) for name in [*listed, *rules["engines"]["names"]]}


def read_sections() -> Sections:
    """Return the sections of `tox.ini`, without comments."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(REPOSITORY / "tox.ini", encoding="utf-8")
    return {section: dict(parser[section]) for section in parser.sections()}


def _read_environment(name: str, sections: Sections, rules: Mapping[str, dict[str, list[str]]]) -> Environment:
    own = {**sections["testenv"], **sections[f"testenv:{name}"]}
    section = {key: _fill(value, sections) for key, value in own.items() if key != "description"}
    listed = [*rules["every"]["reach"], *rules["reach"].get(name, []), *NAMED.findall("\n".join(section.values()))]
    reach = [part for path in listed for part in expand(path)]
    long = [path.replace("{engine}", name) for path in rules["engines"]["reach"]]
    return Environment(
        name=name,
        description=own["description"].replace("{envname}", name),
        section=section,
        reach=[*dict.fromkeys(reach)],
        long_reach=long if name in rules["engines"]["names"] else (),
        always=name in rules["always"]["names"],
        waits=name in rules["waiting"]["names"],
    )


def _fill(value: str, sections: Sections) -> str:
    """Return a setting of `tox.ini` with what it takes from other sections."""
    return REFERENCE.sub(lambda found: _fill(sections[found[1]][found[2]], sections), value)


def expand(path: str) -> Iterator[str]:
    """Yield what a path of `tox.ini` stands for: of a package, its code and that of our own packages that it needs."""
    if not _is_package(path):
        yield path
        return
    description = REPOSITORY / path / "pyproject.toml"
    yield from (f"{path}/pyproject.toml", f"{path}/src")
    for requirement in tomllib.loads(description.read_text(encoding="utf-8"))["project"].get("dependencies", []):
        if found := OWN_PACKAGE.match(requirement):
            # A package lies in a folder of its name.
            yield from (part for home in (found[0], f"plugins/{found[0]}") if _is_package(home) for part in expand(home))


def _is_package(path: str) -> bool:
    return (REPOSITORY / path / "pyproject.toml").is_file()


def _digest(section: Mapping[str, str], reach: Sequence[str]) -> str:
    total = hashlib.sha256(repr(sorted(section.items())).encode())
    for name in list_files(tuple(reach)):
        content = read_content(name)
        total.update(f"\n{name} {len(content)}\n".encode() + content)
    return total.hexdigest()[:16]


@cache
def list_files(reach: tuple[str, ...]) -> Sequence[str]:
    """Return the tracked files that pathspecs match."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *reach], cwd=REPOSITORY, capture_output=True, check=True).stdout
    return [name for name in sorted(filter(None, listed.decode().split("\0"))) if (REPOSITORY / name).is_file()]


@cache
def read_content(name: str) -> bytes:
    """Return what a file holds; of Python, what is executed."""
    file = REPOSITORY / name
    return strip_words(file.read_text(encoding="utf-8")).encode() if file.suffix == ".py" else file.read_bytes()


def strip_words(source: str) -> str:
    """Return Python source without comments and docstrings, those of attributes too."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [statement for statement in body if not _is_docstring(statement)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a string alone."""
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    )
