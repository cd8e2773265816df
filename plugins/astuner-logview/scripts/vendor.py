"""Copies the front end's libraries from npm into the package.

`python scripts/vendor.py` packs the versions that package.json names, takes their ES modules, rewrites imports of packages to
relative ones, and writes them with their licences and a manifest of hashes to `static/vendor/`. Declarations of types
(`*.d.ts`) there are ours, of what our modules use: look at them when a version changes.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
VENDOR = PACKAGE / "src/astuner_logview/static/vendor"

# The file's name here: the npm package, and the file in it.
FILES = {
    "preact.js": ("preact", "dist/preact.mjs"),
    "hooks.js": ("preact", "hooks/dist/hooks.mjs"),
    "signals-core.js": ("@preact/signals-core", "dist/signals-core.mjs"),
    "signals.js": ("@preact/signals", "dist/signals.mjs"),
    "htm.js": ("htm", "dist/htm.mjs"),
    # Its small build is a script that makes a variable; `write_module` exports it.
    "uplot.js": ("uplot", "dist/uPlot.iife.min.js"),
    "uplot.css": ("uplot", "dist/uPlot.min.css"),
}
IMPORTS = {"preact": "preact.js", "preact/hooks": "hooks.js", "@preact/signals-core": "signals-core.js"}
SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")
SCRIPT = re.compile(r"^(?:/\*.*?\*/\s*)?var (\w+)=function\(\)", re.DOTALL)
IMPORT = re.compile(r'(\bfrom ?|\bimport ?)"([^"./\s][^"\s]*)"')


def write_module(text: str) -> str:
    """Return a library's text as a module whose imports are relative and which names no source map.

    Raises ValueError if it imports another package.
    """

    def name_file(match: re.Match[str]) -> str:
        if match[2] not in IMPORTS:
            raise ValueError(f"import of {match[2]!r}: not among the vendored packages; add it to FILES and IMPORTS")
        return f'{match[1]}"./{IMPORTS[match[2]]}"'

    module = IMPORT.sub(name_file, SOURCE_MAP.sub("\n", text))
    variable = SCRIPT.search(text)
    return f"{module.rstrip()}\nexport default {variable[1]};\n" if variable else module


def write_vendored(folder: Path = VENDOR) -> None:
    """Write every library, its licence and `manifest.json` into `folder`."""
    versions = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    manifest: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as work:
        for package in dict.fromkeys(package for package, _ in FILES.values()):
            unpacked = _unpack(package, versions[package], Path(work))
            about = json.loads((unpacked / "package.json").read_text(encoding="utf-8"))
            licence = f"LICENSE-{package.strip('@').replace('/', '-')}.txt"
            texts = {licence: (unpacked / "LICENSE").read_text(encoding="utf-8")}
            for name, (owner, path) in FILES.items():
                if owner == package:
                    text = (unpacked / path).read_text(encoding="utf-8")
                    texts[name] = write_module(text) if name.endswith(".js") else text
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8", newline="\n")
            manifest[package] = {
                "version": about["version"],
                "licence": about["license"],
                "licence_file": licence,
                "sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())},
            }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _unpack(package: str, version: str, work: Path) -> Path:
    folder = work / package.replace("/", "+")
    folder.mkdir()
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


if __name__ == "__main__":
    write_vendored()
