from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from astuner_tools.import_check import ImportResult, try_imports

Install = Callable[..., Path]


def test_each_target_has_its_result_whatever_the_others_do(fake_distribution: Install) -> None:
    files = {
        "acme_talks.py": "print('[]')\nTalks = 1",
        "acme_raises.py": "raise SystemExit('no')",
        "acme_crashes.py": "import os\nos._exit(3)",
    }
    fake_distribution("acme", "1.0", files)
    found = try_imports(["acme_crashes:A", "acme_talks:Talks", "acme_raises:A", "acme_talks:Other", "json.decoder"], ["json"])
    assert [result.error for result in found] == [
        "importing it ends the process with exit code 3",
        "",
        "SystemExit: no",
        "AttributeError: module 'acme_talks' has no attribute 'Other'",
        "",
    ]


def test_one_that_hangs_is_reported(fake_distribution: Install) -> None:
    fake_distribution("acme", "1.0", {"acme_hangs.py": "import time\ntime.sleep(3600)"})
    (found,) = try_imports(["acme_hangs:A"], limit_s=2)
    assert found.error == "importing it takes more than 2 s"


def test_heavy_modules_are_reported_where_they_come_from(fake_distribution: Install) -> None:
    fake_distribution("acme", "1.0", {"acme_heavy.py": "import tomllib\nA = 1"})
    assert try_imports(["acme_heavy:A", "acme_heavy:A"], ["tomllib"]) == [ImportResult(heavy=("tomllib",)), ImportResult()]
