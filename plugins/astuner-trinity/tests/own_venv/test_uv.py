"""The installer is found, and looks where pip looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.contract.errors import UsageError
from astuner_trinity.own_venv.uv import find_uv, read_pip_settings


def test_without_uv_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("astuner_trinity.own_venv.uv.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="pip install uv"):
        find_uv()


def test_uv_looks_where_pip_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.acme.org/simple\nfind-links =\n  /one\n  /two\ntimeout = 5\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.acme.org/simple")
    found = dict(read_pip_settings())
    assert found["index-url"] == "https://other.acme.org/simple"
    assert found["find-links"] == "/one,/two"
    assert "timeout" not in found
