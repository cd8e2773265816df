"""Files of other packages' source distributions: official chat templates, and vLLM's tests of its parsers."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from astuner_devkit.tokenizer import tiny_tokenizer

FOLDERS: Mapping[str, str] = {
    "llama_cpp_python-0.3.36": "vendor/llama.cpp/models/templates",
    "vllm-0.33.0": "examples",
    "axolotl-0.19.0": "src/axolotl/utils/chat_templates/templates",
}
"""Where the templates of each distribution lie."""

SPECIAL = re.compile(
    r"<\|[\w/\-:.]+?\|>|<｜[^<>\n]+?｜>|<(?:start|end)_of_turn>|<\|?turn\|?>|<\|?tool_call\|?>|\[gMASK\]|<sop>|"
    r"</?arg_(?:key|value)>|\[/?[A-Z_]{3,}\]|\]<\]\w+\[>\[|<\|?channel\|?>|</?\w+:\w+>|<\|\"\|>|<\[\w+\]>|\[e~\["
)
"""What the tokenizers of these families hold as special tokens."""
ENDS = re.compile(
    r"<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<turn\|>|<\|return\|>|<｜end▁of▁sentence｜>|<\|END_OF_TURN_TOKEN\|>|"
    r"<\|end_of_text\|>|<\|observation\|>|<\|eot\|>|</s>|\[e~\["
)
"""What ends a turn in them."""


def sdist(name: str) -> Path:
    folder = os.environ.get("ASTUNER_SDISTS")
    assert folder, "ASTUNER_SDISTS names the folder of the source distributions, which `tox -e templates` downloads"
    return Path(folder) / f"{name}.tar.gz"


@cache
def read_templates() -> Mapping[str, str]:
    """The chat templates of all packages, by the package's first letters and the file's name."""
    found: dict[str, str] = {}
    for name, folder in FOLDERS.items():
        with tarfile.open(sdist(name)) as archive:
            for member in archive:
                path = member.name.partition("/")[2]
                if path.endswith(".jinja") and path.rpartition("/")[0] == folder:
                    file = archive.extractfile(member)
                    assert file is not None
                    found[f"{name.partition('_')[0].partition('-')[0]}/{Path(path).stem}"] = file.read().decode()
    for path in Path(str(distribution("trl").locate_file("trl/chat_templates"))).glob("*.jinja"):
        found[f"trl/{path.stem}"] = path.read_text(encoding="utf-8")
    return found


def make_tokenizer(name: str) -> Any:
    source = read_templates()[name]
    tokenizer = tiny_tokenizer(source)
    ends = list(dict.fromkeys(ENDS.findall(source)))
    specials = sorted({*SPECIAL.findall(source), *ends[:1]})
    tokenizer.add_special_tokens({"bos_token": "<s>", "additional_special_tokens": specials})
    tokenizer.eos_token = ends[0] if ends else "</s>"
    return tokenizer
