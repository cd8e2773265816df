from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_the_schema_is_one_json_document_on_stdout(cli: Callable[..., Any]) -> None:
    printed = cli("config", "schema")
    assert (printed.code, printed.err) == (0, "")
    assert json.loads(printed.out)["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_the_schema_goes_into_a_file_and_nothing_to_stdout(cli: Callable[..., Any], tmp_path: Path) -> None:
    printed = cli("config", "schema", "--out", "astuner.schema.json")
    assert (printed.code, printed.out) == (0, "")
    assert "definitions" in json.loads((tmp_path / "astuner.schema.json").read_text())


def test_a_file_that_cannot_be_written_is_named(cli: Callable[..., Any]) -> None:
    refused = cli("config", "schema", "--out", "no/such/directory.json")
    assert refused.code == 2
    assert "no/such/directory.json: there is no directory" in refused.err


def test_a_broken_plugin_is_named_on_stderr_and_the_others_are_described(
    cli: Callable[..., Any], fake_distribution: Callable[..., Path]
) -> None:
    points = {"astuner.judges": {"broken": "acme_broken:Judge", "sound": "acme_sound:Judge"}}
    source = "from attrs import frozen\nclass Judge:\n    @frozen\n    class Options:\n        level: int = 1\n"
    fake_distribution("acme", files={"acme_broken.py": "import no_such_library", "acme_sound.py": source}, entry_points=points)
    printed = cli("config", "schema")
    assert printed.code == 0
    assert "judge 'broken' from acme 1.0" in printed.err
    sections = json.loads(printed.out)["definitions"]["astuner"]["properties"]["task_judge"]["properties"]
    assert "level" in sections["sound"]["properties"]
    assert "additionalProperties" not in sections["broken"]


@pytest.mark.parametrize("root", ["verl", "trinity", "acme"])
def test_the_native_root_of_a_backbone_is_free(
    root: str, cli: Callable[..., Any], fake_distribution: Callable[..., Path]
) -> None:
    fake_distribution("acme", files={"acme.py": "class B: ..."}, entry_points={"astuner.backbones": {"acme": "acme:B"}})
    assert json.loads(cli("config", "schema").out)["properties"][root]["type"] == ["object", "null"]
