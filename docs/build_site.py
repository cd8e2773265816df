"""Builds the documentation site from `site.toml` and the Markdown of the repository: `python docs/build_site.py [FOLDER]`.

The pages stay where they are and are copied to a build folder; a link to a file that is not a page leads to a page that shows it.
A broken link or anchor, and a page that the navigation lacks, end the build. It needs `zensical` and `mkdocstrings-python`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from site_links import LANGUAGES, Site, rewrite_page
from site_texts import write_module_pages, write_texts

ROOT = Path(__file__).resolve().parents[1]


def read_site(root: Path = ROOT) -> Site:
    """Read `docs/site.toml`, and find the pages that it describes; exit if the navigation names other ones."""
    file = root / "docs" / "site.toml"
    settings = tomllib.loads(file.read_text(encoding="utf-8"))
    found = {path.relative_to(root).as_posix() for pattern in settings["pages"] for path in root.glob(pattern)}
    site = Site(
        root=root,
        settings=settings,
        pages=frozenset(path for path in found if not any(fnmatch(path, skipped) for skipped in settings["not_pages"])),
    )
    listed = [path for _, _, path in site.listed]
    problems = [f"{path}: in the navigation, but not a page" for path in listed if path not in site.pages]
    problems += [f"{path}: not in the navigation" for path in sorted(site.pages) if path not in listed]
    problems += [f"{path}: twice in the navigation" for path in sorted({path for path in listed if listed.count(path) > 1})]
    if problems:
        raise SystemExit("\n".join([f"{file}:", *problems]))
    return site


def assemble(site: Site, source: Path) -> None:
    """Write the pages, and the pictures and files that they link to; exit if one does not exist."""
    linked: dict[str, str] = {}
    for path in sorted(site.pages):
        _write(source / site.find_place(path), rewrite_page(path, site, linked))
    missing = [f"{page}: {path} does not exist" for path, page in linked.items() if not (site.root / path).is_file()]
    if missing:
        raise SystemExit("\n".join(missing))
    for path in sorted(linked.keys() - site.pages):
        file, place = site.root / path, source / site.find_place(path)
        if place.suffix == ".md":
            # Not searched: a search is for what the pages say.
            head = f"---\nsearch:\n  exclude: true\n---\n\n# {file.name}\n\n`{path}`\n\n"
            text = file.read_text(encoding="utf-8").rstrip()
            _write(place, f"{head}``````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n``````\n")
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def build(folder: Path, root: Path = ROOT) -> Path:
    """Build the site of a repository in a folder; return the one inside of it that a web server serves."""
    site, source, built = read_site(root), folder / "source", folder / "site"
    for made in (source, built):
        shutil.rmtree(made, ignore_errors=True)
    assemble(site, source)
    shutil.copy(root / "docs" / "site.css", source)
    modules = write_module_pages(root / "docs" / "api.md", source)

    def entry(of: str | Mapping[str, str]) -> Mapping[str, Any]:
        # The one entry that is not a page stands for those of the modules.
        return {of: modules} if isinstance(of, str) else {title: site.find_place(path) for title, path in of.items()}

    settings = json.loads((root / "docs" / "site_theme.json").read_text(encoding="utf-8"))
    settings |= {"site_name": site.settings["name"], "site_description": site.settings["description"]}
    settings |= {"docs_dir": source.name, "site_dir": built.name}
    settings["nav"] = [{part["title"]: [entry(of) for of in part["pages"]]} for part in site.settings["section"]]
    python = settings["plugins"]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(root / "astuner-core" / "src")]
    # JSON is YAML.
    _write(folder / "mkdocs.yml", json.dumps(settings, indent=2, ensure_ascii=False))
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    if code := subprocess.run(command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, check=False).returncode:
        raise SystemExit(code)
    titles = [(section, title, site.find_place(path)) for section, title, path in site.listed]
    write_texts(site.settings["name"], site.settings["description"], titles, source, built)
    return built


if __name__ == "__main__":
    built = build(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "docs")
    print(f"{sys.executable} -m http.server --bind 127.0.0.1 --directory {built}")
