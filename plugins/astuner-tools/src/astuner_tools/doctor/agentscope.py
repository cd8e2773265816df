"""AgentScope: its version, and what this version needs or breaks with. Nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version

from astuner.settings.plugins.requirements import Installed
from astuner_tools.doctor.rows import Row

AREA = "agents"


def agentscope_rows() -> Iterator[Row]:
    """Yield AgentScope, if it is installed, and what it lacks or does not work with."""
    found = _find("agentscope")
    if found is None:
        return
    is_1 = _read_major(found) == 1
    without = "" if is_1 else "it has no module agentscope.tuner; "
    detail = f"{without}functions of AgentScope 1's tune() run as workflows and judges"
    yield Row(area=AREA, what=f"agentscope {found}", detail=detail)
    installed = Installed()
    if unmet := installed.find_unmet(installed.get_facts(distribution("agentscope"))):
        lacks = f"agentscope {found} lacks {', '.join(unmet)}"
        yield Row(area=AREA, what="requirements", status="warning", detail=lacks, remedy=f"pip install agentscope=={found}")
    if is_1:
        yield from _rows_of_version_1()


def _rows_of_version_1() -> Iterator[Row]:
    for name, first_bad in (("mcp", 2), ("openai", 3)):
        there = _find(name)
        if there is not None and _read_major(there) >= first_bad:
            yield Row(
                area=AREA,
                what=f"{name} {there}",
                status="warning",
                detail=f"AgentScope 1 accepts this release and breaks with it; it works with {name}<{first_bad}",
                remedy=f'pip install "{name}<{first_bad}"',
            )
    for name in ("greenlet", "tqdm"):
        if _find(name) is None:
            detail = "AgentScope 1 needs it and does not declare it"
            yield Row(area=AREA, what=name, status="warning", detail=detail, remedy=f"pip install {name}")
    if _find("dspy") is None:
        yield Row(
            area=AREA,
            what="dspy",
            status="missing",
            detail="the module agentscope.tuner cannot be imported without it",
            remedy="pip install dspy, or all of agentscope[tuner]",
        )


def _find(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _read_major(text: str) -> int:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0
