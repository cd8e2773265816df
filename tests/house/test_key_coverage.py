"""Every key is accounted for, per backbone, and what is said to be acted on is read somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone
from astuner.settings.planning.key_coverage import HonourTable, find_unaccounted_keys, walk_schema

# What they need is left out of this environment; the classes of their backbones do without.
sys.path += [str(REPOSITORY / "plugins" / name / "src") for name in ("astuner-local", "astuner-verl", "astuner-trinity")]

from astuner_local.backbone import LocalBackbone
from astuner_trinity.backbone import TrinityBackbone
from astuner_verl.backbone import VerlBackbone

CORE = REPOSITORY / "astuner-core" / "src" / "astuner"
DEBUG = CORE / "episodes" / "builtin" / "debug" / "debug_backbone.py"
# `keys.py` and `backbone.py` hold the claims themselves.
LOOP = [
    *(path for path in sorted((CORE / "runs" / "training").rglob("*.py")) if path.name != "keys.py"),
    CORE / "runs" / "driver" / "event_handling.py",
]


def parts_of(plugin: str) -> list[Path]:
    found = sorted((REPOSITORY / "plugins" / plugin / "src").rglob("*.py"))
    return [*(path for path in found if path.name != "backbone.py"), *LOOP]


SOURCES = {
    "debug": [DEBUG],
    "local": parts_of("astuner-local"),
    "verl": parts_of("astuner-verl"),
    "trinity": parts_of("astuner-trinity"),
    # The typed model and the tables name every key; only what works with them counts.
    "core": [
        *(path for path in sorted(CORE.rglob("*.py")) if "config" not in path.relative_to(CORE).parts and path != DEBUG),
        CORE / "settings" / "config" / "loading.py",
        # What shapes a reward works by itself.
        CORE / "settings" / "config" / "rewards.py",
        # The section `agent` is core's; what plays it is a plugin.
        *sorted((REPOSITORY / "plugins" / "astuner-agents" / "src").rglob("*.py")),
    ],
}
BACKBONES = (DebugBackbone, LocalBackbone, VerlBackbone, TrinityBackbone)


def text_of(paths: list[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def claimed(backbone: type, status: str) -> list[str]:
    table = HonourTable.of(backbone)
    return [key for key in walk_schema() if table.find_honour(key).status == status]


def unread(keys: list[str], text: str) -> list[str]:
    return [key for key in keys if not re.search(rf"\.{key.removesuffix('.*').rpartition('.')[2]}\b", text)]


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_every_key_is_honoured_or_inapplicable_or_refused(backbone: type):
    assert find_unaccounted_keys(backbone) == []


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_what_a_backbone_honours_is_read_by_it(backbone: type):
    assert unread(claimed(backbone, "backbone"), text_of(SOURCES[backbone.name])) == []


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_what_core_honours_is_read_by_core(backbone: type):
    assert unread(claimed(backbone, "core"), text_of(SOURCES["core"])) == []


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_every_reason_is_a_sentence_that_can_be_read_to_a_user(backbone: type):
    table = HonourTable.of(backbone)
    reasons = [table.find_honour(key).reason for key in walk_schema() if not table.find_honour(key).acted_on]
    assert [reason for reason in reasons if len(reason.split()) < 3 or reason.endswith(".")] == []
