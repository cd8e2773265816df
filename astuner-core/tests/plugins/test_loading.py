from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError, PluginError
from astuner.contract.protocols import Candidate, RunInfo
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.compat import find_incompatibility
from astuner.settings.plugins.drivers import load, make

Install = Callable[..., Path]

STRICT = "class Strict:\n    pass\n"


def find(spec: str, config_dir: Path = Path("/")) -> Candidate:
    return Catalog.discover().find("judge", spec, config_dir=config_dir, key="k")


def blame_for(spec: str, config_dir: Path = Path("/")) -> str:
    with pytest.raises(PluginError) as caught:
        load(find(spec, config_dir))
    return str(caught.value)


def offer(install: Install, source: str, module: str, **given: Any) -> None:
    entry_points = {"astuner.judges": {"strict": f"{module}:Strict"}}
    install("acme-judges", "1.2.0", files={f"{module}.py": source}, entry_points=entry_points, **given)


def test_the_class_behind_a_name_is_loaded(install: Install) -> None:
    offer(install, STRICT, "acme_fine")
    assert load(find("strict")).__name__ == "Strict"


def test_a_failing_import_is_blamed_on_distribution_and_version(install: Install) -> None:
    offer(install, "import acme_nothing", "acme_broken")
    assert blame_for("strict") == (
        "judge 'strict' from acme-judges 1.2.0 (acme_broken:Strict): ModuleNotFoundError: No module named 'acme_nothing'"
    )


def test_a_failing_import_of_something_that_is_missing_names_the_command(install: Install) -> None:
    offer(install, "import acme_nothing", "acme_lacking", requires=["acme-nothing>=1"])
    assert blame_for("strict").endswith(". It lacks acme-nothing>=1: pip install acme-judges")


def test_a_missing_attribute_is_blamed(install: Install) -> None:
    offer(install, "", "acme_empty")
    assert blame_for("strict").startswith("judge 'strict' from acme-judges 1.2.0 (acme_empty:Strict): AttributeError: ")


def test_a_module_that_exits_does_not_end_the_program(install: Install) -> None:
    offer(install, "raise SystemExit(3)", "acme_exit")
    assert "SystemExit: 3" in blame_for("strict")


def test_a_plugin_for_another_core_is_listed_with_the_reason(install: Install) -> None:
    offer(install, STRICT, "acme_old", requires=["astuner-core<0.1"])
    assert find_incompatibility(find("strict")) == "it needs astuner-core<0.1, and astuner-core 0.2.0 is installed"


def test_a_plugin_for_another_core_is_refused_with_the_remedy(install: Install) -> None:
    offer(install, STRICT, "acme_older", requires=["astuner-core>=0.0.1,<0.1"])
    message = blame_for("strict")
    assert message.startswith("judge 'strict' from acme-judges 1.2.0 (acme_older:Strict): it needs astuner-core>=0.0.1,<0.1")
    assert "pip install --upgrade acme-judges" in message
    assert "pip install 'astuner-core>=0.0.1,<0.1'" in message


def test_a_plugin_that_names_no_range_is_taken(install: Install) -> None:
    offer(install, STRICT, "acme_any", requires=[])
    assert load(find("strict")).__name__ == "Strict"


def test_a_file_is_imported_once_whoever_imports_it(config_dir: Path) -> None:
    (config_dir / "acme_rewards.py").write_text(STRICT)
    loaded = load(find("./acme_rewards.py:Strict", config_dir))
    assert importlib.import_module("acme_rewards").Strict is loaded
    assert load(find("acme_rewards->Strict", config_dir)) is loaded


def test_what_a_file_defines_can_be_unpickled_elsewhere(config_dir: Path) -> None:
    (config_dir / "parts").mkdir()
    (config_dir / "parts" / "acme_rewards.py").write_text(STRICT)
    made = load(find("./parts/acme_rewards.py:Strict", config_dir))()
    code = "import pickle, sys; print(type(pickle.loads(sys.stdin.buffer.read())).__name__)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, input=pickle.dumps(made), cwd=config_dir, capture_output=True).stdout == b"Strict\n"


def test_a_file_named_like_a_library_is_not_that_library(config_dir: Path) -> None:
    (config_dir / "json.py").write_text(STRICT)
    assert load(find("./json.py:Strict", config_dir)).__name__ == "Strict"


def test_two_files_of_one_name_are_two_modules(config_dir: Path, tmp_path: Path) -> None:
    for place, text in ((config_dir, STRICT), (tmp_path, "class Strict:\n    other = True\n")):
        (place / "acme_twin.py").write_text(text)
    load(find("./acme_twin.py:Strict", config_dir))
    assert load(find("../acme_twin.py:Strict", config_dir)).other


def test_a_file_that_failed_can_be_repaired_and_loaded(config_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "acme_draft.py"
    file.write_text("nonsense here")
    assert "SyntaxError" in blame_for("../acme_draft.py:Strict", config_dir)
    file.write_text(STRICT)
    assert load(find("../acme_draft.py:Strict", config_dir)).__name__ == "Strict"


def test_a_path_is_blamed_by_its_place(config_dir: Path) -> None:
    (config_dir / "acme_bad.py").write_text("1 / 0")
    place = f"{config_dir.resolve()}/acme_bad.py:Strict"
    blame = f"judge './acme_bad.py:Strict' ({place}): ZeroDivisionError: division by zero (acme_bad.py:1)"
    assert blame_for("./acme_bad.py:Strict", config_dir) == blame


def test_a_class_that_must_know_the_run_is_made_by_from_run(install: Install, run_info: RunInfo) -> None:
    source = """
class Strict:
    @classmethod
    def from_run(cls, options, run_info):
        self = cls()
        self.seen = (options, run_info.experiment_name)
        return self
"""
    offer(install, source, "acme_from_run")
    assert make(find("strict"), None, run_info).seen == (None, "experiment")


def test_options_are_the_only_argument_of_the_constructor(install: Install, run_info: RunInfo) -> None:
    offer(install, "class Strict:\n    def __init__(self, options):\n        self.options = options\n", "acme_options")
    assert make(find("strict"), "given", run_info).options == "given"


def test_a_failing_constructor_is_blamed(install: Install, run_info: RunInfo) -> None:
    offer(install, "class Strict:\n    def __init__(self):\n        raise KeyError('answer')\n", "acme_raises")
    with pytest.raises(PluginError, match=r"judge 'strict' from acme-judges 1\.2\.0 .* could not be made: KeyError: 'answer'"):
        make(find("strict"), None, run_info)


def test_an_error_that_explains_itself_passes_through_making(install: Install, run_info: RunInfo) -> None:
    source = """
from astuner.contract.errors import ConfigError, Problem
class Strict:
    def __init__(self):
        raise ConfigError([Problem(message='no such model', key='task_judge.strict.model')])
"""
    offer(install, source, "acme_explains")
    with pytest.raises(ConfigError, match=r"task_judge\.strict\.model: no such model"):
        make(find("strict"), None, run_info)
