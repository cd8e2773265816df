from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest

from astuner.shared.install_hints import install_command

Rows = Callable[..., "dict[tuple[str, str], dict[str, str]]"]
Install = Callable[..., None]

JUDGE = {"astuner.judges": {"strict": "acme:S"}}


def test_a_plugin_is_a_row_with_its_version_components_and_range(rows: Rows, install: Install) -> None:
    install("acme-judges", "1.2.0", entry_points=JUDGE)
    row = rows()["plugins", "acme-judges 1.2.0"]
    assert (row["status"], row["detail"]) == ("ok", "judge strict; made for astuner-core>=0.2,<0.3")


def test_a_component_that_cannot_be_imported_is_broken_and_says_why(rows: Rows, install: Install) -> None:
    install("acme-judges", "1.2.0", files={"acme.py": "import nothing_here"}, entry_points=JUDGE)
    row = rows()["plugins", "judge strict"]
    assert row["status"] == "broken"
    assert row["detail"] == "cannot be imported from acme-judges 1.2.0: ModuleNotFoundError: No module named 'nothing_here'"
    assert row["remedy"] == "mend, upgrade or uninstall acme-judges"


def test_a_plugin_for_another_core_is_broken_and_the_upgrade_is_named(rows: Rows, install: Install) -> None:
    install("acme-judges", "1.2.0", requires=["astuner-core>=9"], entry_points=JUDGE)
    row = rows()["plugins", "acme-judges 1.2.0"]
    assert row["status"] == "broken"
    assert "it needs astuner-core>=9" in row["detail"]
    assert row["remedy"] == "pip install --upgrade acme-judges"


def test_a_missing_requirement_is_broken_and_the_command_is_named(rows: Rows, install: Install) -> None:
    install("acme-judges", requires=["acme-absent>=2"], entry_points=JUDGE)
    row = rows()["plugins", "acme-judges 1.0"]
    assert (row["status"], row["detail"], row["remedy"]) == ("broken", "lacks acme-absent>=2", "pip install acme-judges")


def test_a_missing_extra_is_missing_for_its_component_alone(rows: Rows, install: Install) -> None:
    install(
        "acme",
        requires=["acme-absent; extra == 'board'"],
        files={"a.py": "B = F = 1"},
        entry_points={"astuner.loggers": {"board": "a:B", "flat": "a:F"}},
    )
    found = rows()
    row = found["plugins", "logger board"]
    assert (row["status"], row["remedy"]) == ("missing", "pip install 'acme[board]'")
    assert ("plugins", "logger flat") not in found


def test_one_name_from_two_packages_is_a_warning_with_both_ways(rows: Rows, install: Install) -> None:
    install("acme-judges", files={"acme.py": "S = 1"}, entry_points=JUDGE)
    install("bolt-judges", entry_points=JUDGE)
    row = rows()["plugins", "judge strict"]
    assert (row["status"], row["remedy"]) == ("warning", "write acme-judges/strict or bolt-judges/strict")


def test_engines_are_told_from_metadata_alone(rows: Rows, install: Install) -> None:
    install("vllm", "0.99", files={"vllm/__init__.py": "raise RuntimeError('imported')"}, requires=())
    assert rows()["engines", "vllm"]["detail"].startswith("0.99")


@pytest.mark.parametrize(
    ("vllm", "packages", "status", "detail"),
    [
        ("0.32.1", ["astuner-vllm"], "ok", "0.32.1"),
        ("0.24.0", ["astuner-vllm"], "broken", "0.24.0; astuner-vllm drives vllm>=0.32,<0.33"),
        ("0.24.0", ["astuner-vllm", "astuner-verl"], "warning", "0.24.0; astuner-vllm drives vllm>=0.32,<0.33"),
        (
            "0.33.0",
            ["astuner-vllm", "astuner-verl"],
            "broken",
            "0.33.0; astuner-verl drives vllm==0.24.0; astuner-vllm drives vllm>=0.32,<0.33",
        ),
    ],
)
def test_an_engine_of_another_release_is_named_with_what_is_wanted(
    rows: Rows, install: Install, vllm: str, packages: list[str], status: str, detail: str
) -> None:
    install("vllm", vllm, requires=())
    for package in ("astuner-vllm", "astuner-verl"):
        if package in packages:
            install(package, requires=())
        elif find_spec(package.replace("-", "_")):
            pytest.skip(f"{package} is installed here")
    row = rows()["engines", "vllm"]
    assert (row["status"], row["detail"]) == (status, detail)


def test_an_extension_with_a_misspelt_hook_is_broken(rows: Rows, install: Install) -> None:
    source = "from astuner import hookimpl\nclass A:\n    @hookimpl\n    def astuner_step_finishd(self, report): ...\n"
    install("acme-audit", "0.3", files={"acme_audit.py": source}, entry_points={"astuner.hooks": {"audit": "acme_audit:A"}})
    row = rows()["extensions", "hook"]
    assert row["status"] == "broken"
    assert "hook 'audit' from acme-audit 0.3 (acme_audit:A)" in row["detail"]
    assert "Did you mean 'astuner_step_finished'?" in row["detail"]


def test_extensions_that_work_are_listed(rows: Rows, install: Install) -> None:
    source = "from astuner import hookimpl\nclass A:\n    @hookimpl\n    def astuner_step_finished(self, report): ...\n"
    install("acme-audit", "0.3", files={"acme_audit.py": source}, entry_points={"astuner.hooks": {"audit": "acme_audit:A"}})
    assert rows()["extensions", "hooks"]["detail"] == "audit (acme-audit 0.3)"


def test_a_core_without_its_rollout_extra_names_the_one_command(rows: Rows, install: Install) -> None:
    install("uvicorn", "0.0.1", requires=())
    row = rows()["plugins", "astuner-core[rollout]"]
    assert (row["status"], row["remedy"]) == ("missing", install_command("astuner-core[rollout]"))
    assert row["detail"] == "lacks uvicorn>=0.30 (0.0.1 is installed), which every rollout needs"
