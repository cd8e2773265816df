"""One HTML file that shows what the viewer shows, from disk and without a network."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from astuner_logview.answers import encode_answer
from astuner_logview.export.modules import Modules, name_module, read_static
from astuner_logview.export.subjects import Subject

PAGES = frozenset({"app/pages/group.js", "app/pages/episode.js", "app/pages/tokens.js"})
"""What can be opened in the file."""
MAIN = "app/main.js"
_STYLESHEET = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')


def build_page(subject: Subject, answers: Mapping[str, dict[str, Any]]) -> str:
    """Return the HTML of an exported group or episode."""
    modules = Modules(PAGES)
    for path in (MAIN, *sorted(PAGES)):
        modules.add(path)
    names = escape_script(json.dumps({"imports": modules.make_import_map()}))
    start = f'import "{name_module(MAIN)}";'
    style = read_styles()
    icon = base64.b64encode(read_static("icon.svg").encode()).decode()
    policy = (
        f"default-src 'none'; script-src data: {_hash(names)} {_hash(start)}; style-src {_hash(style)}; img-src data:; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(subject.file_name)}</title>
<link rel="icon" href="data:image/svg+xml;base64,{icon}">
<style>{style}</style>
<script type="importmap">{names}</script>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/octet-stream" id="answers">{pack({"start": subject.page, "answers": dict(answers)})}</script>
<script type="module">{start}</script>
</body>
</html>
"""


def read_styles() -> str:
    """Return the style sheets of the pages, in their order, as one text for a `<style>`."""
    paths = _STYLESHEET.findall(read_static("index.html"))
    # Nothing in them ends the element, unless somebody writes it into a comment.
    return "\n".join(map(read_static, paths)).replace("</", "<\\/")


def escape_script(text: str) -> str:
    """Return JSON that cannot end the `<script>` it is in."""
    return text.replace("<", "\\u003c")


def pack(document: dict[str, Any]) -> str:
    """Return base64 of deflate-raw of a JSON document: whatever its texts are, they are letters and digits in the page."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(encode_answer(document)) + packer.flush()).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
