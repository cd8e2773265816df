"""Which environments of tox CI runs: those that a change reaches.

What reaches an environment follows from its section of `tox.ini`: the packages that it installs (without their tests and pages),
the tests that it runs, its constraints; `suites.toml` has what the section does not say. `suites.passed` holds a digest of all
that for each environment that has passed. CI skips an environment whose digest is the recorded one. Comments and docstrings of
Python do not count.

An engine has a second digest, of what reaches the real engine. While that one is as recorded, CI leaves out the engine's long
tests: those marked `long`, which start the real engine.

    python .ci/suites.py              a line for each environment: its name, and `run`, `aside`, `skip`, `short` or `long`
    python .ci/suites.py --all        the same, as if nothing had passed before
    python .ci/suites.py run core     run `tox -r -e core`; if it passes, record it. Any number of environments
    python .ci/suites.py record core  record an environment that has passed in this checkout
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from reach import REPOSITORY, Environment, read_environments

PASSED = Path(__file__).with_name("suites.passed")
LONG = ":long"
"""What follows the name of an engine in the record of its long tests."""


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    environments = read_environments()
    match arguments:
        case [] | ["--all"]:
            passed = {} if arguments else read_passed()
            for environment in environments.values():
                print(environment.name, choose_suite(environment, passed))
        case ["run" | "record", *names] if names and set(names) <= {*environments}:
            chosen = [environments[name] for name in names]
            return run(chosen) if arguments[0] == "run" else record(chosen)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def choose_suite(environment: Environment, passed: dict[str, str]) -> str:
    """Return what CI runs of an environment."""
    if environment.always:
        return "run"
    if passed.get(environment.name) == environment.digest():
        return "skip"
    if not environment.long_reach:
        return "aside" if environment.waits else "run"
    return "short" if passed.get(environment.name + LONG) == environment.long_digest() else "long"


def run(environments: Iterable[Environment]) -> int:
    """Run environments and record each that passes; return 1 if one has not."""
    failed, commit = [], read_commit()
    for environment in environments:
        refuse_changes(environment)
        tox = [sys.executable, "-m", "tox", "-r", "-e", environment.name]
        failed_now = subprocess.run(tox, cwd=REPOSITORY, check=False).returncode != 0
        if failed_now or read_commit() != commit or record([environment]):
            failed.append(environment.name)
    if failed:
        print("not recorded, since they failed or another commit was checked out meanwhile:", *failed, file=sys.stderr)
    return 1 if failed else 0


def read_commit() -> bytes:
    """Return the commit that is checked out."""
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, check=True).stdout


def record(environments: Iterable[Environment]) -> int:
    """Write down the digests of what is checked out."""
    for environment in environments:
        refuse_changes(environment)
        passed = read_passed() | {environment.name: environment.digest()}
        if environment.long_reach:
            passed[environment.name + LONG] = environment.long_digest()
        PASSED.write_text("".join(f"{name} {passed[name]}\n" for name in sorted(passed)), encoding="utf-8")
    return 0


def refuse_changes(environment: Environment) -> None:
    """Exit if something that reaches an environment is not committed: a digest of what no commit holds would be of no use."""
    if changes := environment.uncommitted():
        sys.exit(f"{environment.name}: commit first what reaches it:\n{changes}")


def read_passed() -> dict[str, str]:
    """Return the recorded digests."""
    lines = PASSED.read_text(encoding="utf-8").splitlines() if PASSED.exists() else []
    return dict(line.split() for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
