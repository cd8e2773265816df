"""Which of the user's packages go along, and from where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from astuner_trinity.own_venv.user_packages import list_user_packages

Install = Callable[..., Path]

FOLDER = '{"url": "file:///home/me/my%20agent", "dir_info": {"editable": true}}'


def requirements() -> list[str]:
    return [package.requirement for package in list_user_packages()]


def test_what_no_other_package_needs_goes_along_in_its_version(install: Install) -> None:
    install("acme-agent", "1.2", requires=["acme-web>=3", "acme-dev; extra == 'dev'"])
    install("acme-web", "3.1")
    install("acme-dev", "0.1")
    assert requirements() == ["acme-agent==1.2", "acme-dev==0.1"]


def test_packages_that_only_need_each_other_go_along(install: Install) -> None:
    install("acme-chain", "1.0", requires=["acme-chain-community"])
    install("acme-chain-community", "2.0", requires=["acme-chain"])
    assert requirements() == ["acme-chain==1.0"]


@pytest.mark.parametrize("name", ["pip", "setuptools", "uv"])
def test_installers_stay(install: Install, name: str) -> None:
    install(name)
    assert requirements() == []


def test_a_plugin_goes_along_even_if_another_package_needs_it(install: Install) -> None:
    install("acme-judges", "1.0", entry_points={"astuner.judges": {"strict": "acme:S"}}, requires=["astuner-core>=0.1"])
    install("acme-project", "1.0", requires=["acme-judges"])
    install("astuner-core", "0.2.0")
    assert [(package.name, package.is_ours) for package in list_user_packages()] == [
        ("acme-judges", True),
        ("acme-project", False),
        ("astuner-core", True),
    ]


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (FOLDER, "-e file:///home/me/my%20agent"),
        ('{"url": "file:///home/me/agent", "dir_info": {}}', "acme @ file:///home/me/agent"),
        ('{"url": "https://acme.org/acme-1.0-py3-none-any.whl", "archive_info": {}}', None),
        (
            '{"url": "https://acme.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "lib"}',
            "acme @ git+https://acme.org/a.git@abc#subdirectory=lib",
        ),
    ],
)
def test_a_package_comes_from_where_it_came_from(install: Install, origin: str, requirement: str | None) -> None:
    install("acme", direct_url=origin)
    install("acme-needs-it", requires=["acme"])
    assert (requirement or "acme @ https://acme.org/acme-1.0-py3-none-any.whl") in requirements()


def test_a_folder_that_is_not_editable_is_built_again(install: Install) -> None:
    install("acme", direct_url='{"url": "file:///home/me/agent", "dir_info": {}}')
    install("bolt", direct_url=FOLDER)
    assert {package.name: package.is_folder for package in list_user_packages()} == {"acme": True, "bolt": False}


def test_what_python_path_brings_is_found_from_any_environment(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install("acme")
    monkeypatch.setenv("PYTHONPATH", str(site))
    assert requirements() == []
