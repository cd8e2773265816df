from __future__ import annotations

from collections.abc import Callable

import pytest

Rows = Callable[..., "dict[tuple[str, str], dict[str, str]]"]
Install = Callable[..., None]


def find(rows: Rows) -> dict[str, dict[str, str]]:
    return {what: row for (area, what), row in rows().items() if area == "agents"}


def test_agentscope_2_is_named_with_what_it_has_not(rows: Rows, install: Install) -> None:
    install("agentscope", "2.0.11", requires=())
    assert {what: row["status"] for what, row in find(rows).items()} == {"agentscope 2.0.11": "ok"}
    assert "no module agentscope.tuner" in find(rows)["agentscope 2.0.11"]["detail"]


def test_what_agentscope_1_breaks_with_is_a_warning_with_the_command(rows: Rows, install: Install) -> None:
    install("agentscope", "1.0.21", requires=())
    for name, version in (("mcp", "2.3.0"), ("openai", "3.54.0"), ("greenlet", "3.5.6"), ("tqdm", "4.0"), ("dspy", "3.4")):
        install(name, version, requires=())
    found = find(rows)
    assert {what: row["status"] for what, row in found.items()} == {
        "agentscope 1.0.21": "ok",
        "mcp 2.3.0": "warning",
        "openai 3.54.0": "warning",
    }
    assert found["mcp 2.3.0"]["remedy"] == 'pip install "mcp<2"'


@pytest.mark.parametrize("name", ["mcp", "openai"])
def test_what_agentscope_1_works_with_is_no_row(rows: Rows, install: Install, name: str) -> None:
    install("agentscope", "1.0.21", requires=())
    install(name, "1.30", requires=())
    assert not any(what.startswith(name) for what in find(rows))


def test_an_unmet_requirement_is_named(rows: Rows, install: Install) -> None:
    install("agentscope", "2.0.11", requires=("acme-absent>=2",))
    assert find(rows)["requirements"]["detail"] == "agentscope 2.0.11 lacks acme-absent>=2"
