"""Ordinary answers in many scripts, notations and programming languages: none of them abnormal behaviour.

Those in `ordinary_texts.toml` are written by hand. The generated ones have the size and regularity of real answers: grids,
logs, tables, rules, encodings.
"""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from random import Random

_WRITTEN: Mapping[str, Mapping[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

SCRIPTS = _WRITTEN["scripts"]
"""Prose and notations."""

CODE: Mapping[str, str] = {
    **_WRITTEN["code"],
    "assembly": "_start:\n" + "    nop\n" * 60 + "    mov eax, 1\n    int 0x80\n",
    "SQL": "INSERT INTO t (a, b, c) VALUES\n" + ",\n".join(f"  ({i}, NULL, NULL)" for i in range(60)) + ";\n",
    "HTML": '<div class="board">\n' + '  <div class="cell"></div>\n' * 64 + "</div>\n",
    "HTML table": "<table>" + ("<tr>" + "<td></td>" * 9 + "</tr>") * 9 + "</table>",
    "LaTeX": "\\begin{tabular}{|c|c|c|}\n\\hline\n"
    + "0 & 0 & 0 \\\\ \\hline\n" * 12
    + "\\end{tabular} $\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$\n",
    "diff": "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-import os\n+import sys\n \n" + "-    pass\n" * 20,
}
"""Programs and markup."""

REGULAR: Mapping[str, str] = {
    "empty": "",
    "blank": " \n\n   \t\n",
    "JSON objects": json.dumps([{"id": i, "name": f"user{i}", "active": True, "tags": []} for i in range(300)], indent=1),
    "JSON zeros": json.dumps([[0] * 30] * 30),
    "JSON booleans": json.dumps([True] * 500),
    "JSON nulls": json.dumps({"values": [None] * 600}),
    "grid of zeros": "\n".join(" ".join("0" * 30) for _ in range(30)),
    "identity matrix": "\n".join(" ".join("1" if i == j else "0" for j in range(40)) for i in range(40)),
    "numbers": ", ".join(map(str, range(2000))),
    "primes": " ".join(str(n) for n in range(2, 3000) if all(n % d for d in range(2, int(n**0.5) + 1))),
    "binary numbers": "\n".join(f"{i} = {i:08b}" for i in range(256)),
    "a googol": "10^100 = 1" + "0" * 100,
    "a thousand digits": "1" + "0" * 1000,
    "a repeating decimal": "1/7 = 0." + "142857" * 40 + "…",
    "CSV": "id,name,value,,,\n" + "".join(f"{i},item{i},{i * 3.5},,,\n" for i in range(200)),
    "CSV of empty fields": (",,,,,,,,,\n") * 60,
    "log": "".join(
        f"2024-05-0{1 + i // 100} 12:{i // 60 % 60:02}:{i % 60:02} INFO worker-{i % 4} request served in {i % 7} ms\n"
        for i in range(300)
    ),
    "log without times": "INFO health check ok\n" * 40,
    "base64": base64.encodebytes(Random(0).randbytes(3000)).decode(),
    "base64 of zeros": base64.b64encode(bytes(1024)).decode(),
    "hex dump": "\n".join(f"{i:08x}  " + " ".join(["00"] * 16) + "  |................|" for i in range(0, 1024, 16)),
    "UUIDs": "\n".join(f"{Random(i).getrandbits(128):032x}" for i in range(60)),
    "DNA": "".join(Random(1).choices("ACGT", k=3000)),
    "rules": "-----\n\n=====\n\n"
    + "-" * 80
    + "\n"
    + "=" * 200
    + "\n"
    + "*" * 80
    + "\n"
    + "~" * 80
    + "\n"
    + "_" * 300
    + "\n"
    + "━" * 120,
    "leaders": "\n".join(f"Chapter {i} {'.' * (70 - len(str(i)))} {i * 12}" for i in range(1, 40)),
    "Markdown table": "| a | b | c |\n|---|---|---|\n" + "| 0 | 0 | 0 |\n" * 60,
    "wide Markdown table": "|" + " x |" * 60 + "\n|" + "---|" * 60 + "\n",
    "box drawing": "┌" + "─" * 78 + "┐\n" + ("│" + " " * 78 + "│\n") * 20 + "└" + "─" * 78 + "┘",
    "ASCII art": "\n".join(" " * (20 - i) + "*" * (2 * i + 1) for i in range(20)) + "\n" + " " * 19 + "|||\n",
    "a filled block": ("#" * 60 + "\n") * 25,
    "progress": "\n".join("[" + "█" * i + "░" * (40 - i) + f"] {i * 100 // 40}%" for i in range(41)),
    "a maze": "\n".join("".join(Random(i).choices("# ", k=60)) for i in range(30)),
    "a sum, step by step": "\n".join(f"Step {i}: {i * (i - 1) // 2} + {i} = {i * (i + 1) // 2}" for i in range(1, 200)),
    "bottles": "\n".join(f"{n} bottles of beer on the wall, {n} bottles of beer. Take one down." for n in range(99, 0, -1)),
    "a refrain": "\n".join(
        f"Verse {i} tells of wind {i * i}.\nRow, row, row your boat,\nGently down the stream.\n" for i in range(1, 12)
    ),
    "a chorus": "We will, we will sing along!\n" * 12,
    "a poem": (
        "Tyger of paper, tyger of ink,\nburn where the margins sink;\n"
        "what small hand, and what small eye,\nlet thy folded stripes go by?"
    ),
    "multiplication table": "\n".join("\t".join(str(i * j) for j in range(1, 13)) for i in range(1, 13)),
    "calendar": "Mo Tu We Th Fr Sa Su\n" + "\n".join(" ".join(f"{7 * w + d:2}" for d in range(1, 8)) for w in range(5)),
    "to-do list": "\n".join("- [ ] task" for _ in range(80)),
    "XML": "<list>\n" + "".join(f'  <item id="{i}"/>\n' for i in range(200)) + "</list>",
    "truth table": "\n".join(" ".join(f"{i:06b}") + " | T" for i in range(64)),
    "chess": "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 " + "6. Re1 Ng8 7. Rf1 Nf6 " * 12,
}
"""Texts that are regular by nature."""

ORDINARY_TEXTS: Mapping[str, str] = {**SCRIPTS, **CODE, **REGULAR}
"""All of them, by description."""
