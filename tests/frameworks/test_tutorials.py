"""What the tutorial says and what is tested are the same thing."""

from __future__ import annotations

import re

import pytest
from tutorials import AGENTS, NAMES

COMMAND = re.compile(r"^```bash\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_the_configurations_differ_in_their_name_only(name: str):
    found = (AGENTS / name / "tune.yaml").read_text().replace(f"experiment_name: {name}\n", "experiment_name: raw_http\n")
    assert found == (AGENTS / "raw_http" / "tune.yaml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_each_page_is_the_one_that_is_tested(name: str):
    assert COMMAND.findall((AGENTS / name / "README.md").read_text()) == ["astuner run --conf tune.yaml --backbone local"]


@pytest.mark.parametrize("name", NAMES)
def test_the_index_names_each_framework(name: str):
    assert f"]({name})" in (AGENTS / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_is_one_page(name: str):
    assert len((AGENTS / name / "agent.py").read_text().splitlines()) <= 50
