from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from astuner.testing.distribution import write_distribution

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]

STRICT = '''
"""A judge."""
from attrs import frozen

class Strict:
    """Compare answers to the letter.

    Longer words.
    """

    @frozen(kw_only=True)
    class Options:
        field: str
        """Where the answer lies."""
        case: bool = True
        """Whether case counts."""
'''


def install_judges(site: Path, source: str = STRICT, requires: tuple[str, ...] = ("astuner-core>=0.1,<0.2",)) -> None:
    files = {"acme_judges/strict.py": source}
    write_distribution(site, "acme-judges", "1.2.0", files, {"astuner.judges": {"strict": "acme_judges.strict:Strict"}}, requires)


def test_a_third_partys_component_is_listed(astuner: Astuner, site: Path) -> None:
    install_judges(site)
    rows = [line.split() for line in astuner("plugin", "list").stdout.splitlines()]
    assert ["judge", "strict", "acme-judges", "1.2.0", "ok"] in rows


def test_a_broken_one_is_listed_like_any_other(astuner: Astuner, site: Path) -> None:
    install_judges(site, source="1 / 0")
    assert "strict" in astuner("plugin", "list").stdout


def test_one_for_another_core_is_listed_with_the_reason(astuner: Astuner, site: Path) -> None:
    install_judges(site, requires=("astuner-core>=9",))
    assert "it needs astuner-core>=9, and astuner-core 0.1.0 is installed" in astuner("plugin", "list").stdout


def test_what_is_missing_is_listed_with_the_command(astuner: Astuner, site: Path) -> None:
    install_judges(site, requires=("acme-absent",))
    assert "lacks acme-absent: pip install acme-judges" in astuner("plugin", "list").stdout


def test_the_list_as_json_is_one_document_with_every_fact(astuner: Astuner, site: Path) -> None:
    install_judges(site, requires=("astuner-core>=0.1,<0.2", "acme-absent"))
    rows = json.loads(astuner("plugin", "list", "--json").stdout)
    assert [row for row in rows if row["name"] == "strict"] == [
        {
            "kind": "judge",
            "name": "strict",
            "dist": "acme-judges",
            "version": "1.2.0",
            "target": "acme_judges.strict:Strict",
            "core_requirement": ">=0.1,<0.2",
            "missing": ["acme-absent"],
            "remedy": "pip install acme-judges",
            "problem": None,
        }
    ]


def test_one_component_is_shown_with_its_options(astuner: Astuner, site: Path) -> None:
    install_judges(site)
    assert astuner("plugin", "show", "judges", "strict").stdout == (
        "judge strict\n"
        "Compare answers to the letter.\n"
        "\n"
        "from      acme-judges 1.2.0\n"
        "target    acme_judges.strict:Strict\n"
        "made for  astuner-core>=0.1,<0.2\n"
        "status    ok\n"
        "\n"
        "options:\n"
        "  field: str (required)\n"
        "      Where the answer lies.\n"
        "  case: bool (default true)\n"
        "      Whether case counts.\n"
    )


def test_one_component_as_json_is_one_document(astuner: Astuner, site: Path) -> None:
    install_judges(site)
    shown = json.loads(astuner("plugin", "show", "judge", "strict", "--json").stdout)
    case = {"name": "case", "type": "bool", "required": False, "default": True, "doc": "Whether case counts."}
    assert shown["options"][1] == case


def test_one_that_cannot_be_loaded_is_shown_with_the_blame_and_fails(astuner: Astuner, site: Path) -> None:
    install_judges(site, source="1 / 0")
    found = astuner("plugin", "show", "judge", "strict")
    assert found.returncode == 1
    assert "status    judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict): ZeroDivisionError" in found.stdout


def test_a_file_of_ones_own_is_shown_too(astuner: Astuner, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRICT)
    assert "from      a path" in astuner("plugin", "show", "judge", "./mine.py:Strict").stdout


def test_an_unknown_kind_names_those_that_are(astuner: Astuner) -> None:
    found = astuner("plugin", "show", "juge", "math")
    assert found.returncode == 2
    assert "no kind 'juge'; there are: reader, judge," in found.stderr
