"""Every key is accounted for, per backbone, and what is said to be acted on is read somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner.builtin.debug_backbone import DebugBackbone
from astuner.config.honour import HonourTable, unaccounted, walk_schema
from astuner_local.backbone import LocalBackbone

CORE = REPOSITORY / "astuner-core" / "src" / "astuner"
DEBUG = CORE / "builtin" / "debug_backbone.py"
SOURCES = {
    "debug": [DEBUG],
    "local": sorted((REPOSITORY / "plugins" / "astuner-local" / "src").rglob("*.py")),
    # The typed model and the tables name every key; only what works with them counts.
    "core": [
        *(path for path in sorted(CORE.rglob("*.py")) if "config" not in path.relative_to(CORE).parts and path != DEBUG),
        CORE / "config" / "loading.py",
    ],
}
BACKBONES = (DebugBackbone, LocalBackbone)


def text_of(paths: list[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def claimed(backbone: type, status: str) -> list[str]:
    table = HonourTable.of(backbone)
    return [key for key in walk_schema() if table.honour_of(key).status == status]


def unread(keys: list[str], text: str) -> list[str]:
    return [key for key in keys if not re.search(rf"\.{key.removesuffix('.*').rpartition('.')[2]}\b", text)]


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_every_key_is_honoured_or_inapplicable_or_refused(backbone: type):
    assert unaccounted(backbone) == []


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_what_a_backbone_honours_is_read_by_it(backbone: type):
    assert unread(claimed(backbone, "backbone"), text_of(SOURCES[backbone.name])) == []


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_what_core_honours_is_read_by_core(backbone: type):
    assert unread(claimed(backbone, "core"), text_of(SOURCES["core"])) == []


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_every_reason_is_a_sentence_that_can_be_read_to_a_user(backbone: type):
    table = HonourTable.of(backbone)
    reasons = [table.honour_of(key).reason for key in walk_schema() if not table.honour_of(key).acted_on]
    assert [reason for reason in reasons if len(reason.split()) < 3 or reason.endswith(".")] == []
