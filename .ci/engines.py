"""Which suites of the engines CI runs.

The long suite of an engine (the tests marked `long`: all that start the real engine) takes 7 to 18 minutes. It runs if anything
that reaches the engine, as `engines.toml` lists it, has changed since the long suite last passed; all other tests of the engine
always run. `engines.passed` holds, for each engine, a digest of what reached it when the long suite last passed.

    python .ci/engines.py               a line for each engine: its name, and `long` or `short`
    python .ci/engines.py record verl   after `tox -e verl` has passed: write down the digest of what is checked out
"""

from __future__ import annotations

import ast
import configparser
import hashlib
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
PASSED = HERE / "engines.passed"


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    rule = tomllib.loads((HERE / "engines.toml").read_text(encoding="utf-8"))
    passed = read_passed()
    match arguments:
        case []:
            for engine in rule["engines"]:
                print(engine, "short" if passed.get(engine) == digest(engine, rule["reach"]) else "long")
        case ["record", *engines] if engines and set(engines) <= set(rule["engines"]):
            passed.update((engine, digest(engine, rule["reach"])) for engine in engines)
            PASSED.write_text("".join(f"{engine} {passed[engine]}\n" for engine in sorted(passed)), encoding="utf-8")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def read_passed() -> dict[str, str]:
    """Return the recorded digest of each engine."""
    lines = PASSED.read_text(encoding="utf-8").splitlines() if PASSED.exists() else []
    return dict(line.split() for line in lines)


def digest(engine: str, reach: list[str]) -> str:
    """Return a digest of every tracked file that reaches an engine, and of its section in `tox.ini`."""
    paths = [path.replace("{engine}", engine) for path in reach]
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=REPOSITORY, capture_output=True, check=True).stdout
    total = hashlib.sha256(read_tox_section(engine).encode())
    for name in sorted(filter(None, listed.decode().split("\0"))):
        if (REPOSITORY / name).is_file():
            content = read_content(name)
            total.update(f"\n{name} {len(content)}\n".encode() + content)
    return total.hexdigest()[:16]


@cache
def read_content(name: str) -> bytes:
    """Return what a file holds; of Python, what is executed."""
    file = REPOSITORY / name
    return strip_words(file.read_text(encoding="utf-8")).encode() if file.suffix == ".py" else file.read_bytes()


def read_tox_section(engine: str) -> str:
    """Return how `tox.ini` installs and runs the environment of an engine."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(REPOSITORY / "tox.ini", encoding="utf-8")
    return repr([sorted(parser[section].items()) for section in ("testenv", f"testenv:{engine}")])


def strip_words(source: str) -> str:
    """Return Python source without comments and docstrings, those of attributes too."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [statement for statement in body if not is_docstring(statement)] or [ast.Pass()]
    return ast.unparse(tree)


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a string alone."""
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
