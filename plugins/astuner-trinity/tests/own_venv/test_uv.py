"""The installer is found, and looks where pip looks."""

from __future__ import annotations

import sys
import zipfile
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest

from astuner.contract.errors import RunFailed, UsageError
from astuner_trinity.own_venv.pins import read_pins
from astuner_trinity.own_venv.uv import find_uv, read_pip_settings, resolve, run_uv


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


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of `acme` 1.0, in the one place where uv looks."""
    made = tmp_path / "wheels" / "acme-1.0-py3-none-any.whl"
    made.parent.mkdir()
    files = {
        "acme.py": "",
        "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
        "acme-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "acme-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    for name, value in {"UV_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_FIND_LINKS": str(made.parent)}.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_whose_hash_is_not_that_of_the_lock_is_not_installed(wheel: Path, tmp_path: Path, replaced: bool) -> None:
    wanted, pins, home = tmp_path / "wanted.txt", tmp_path / "pins.txt", tmp_path / "venv"
    wanted.write_text("acme\n")
    pins.write_text(f"acme==1.0 \\\n    --hash=sha256:{sha256(wheel.read_bytes()).hexdigest()}\n")
    if replaced:
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("acme_more.py", "print('not what was locked')")
    # The result takes the place of the lock, as in a setup.
    resolve(wanted, pins, sys.executable, ())
    assert read_pins(pins) == {"acme": "1.0"}
    run_uv("venv", "--quiet", "--python", sys.executable, home)
    with pytest.raises(RunFailed) if replaced else nullcontext():
        run_uv("pip", "sync", pins, "--python", home / "bin" / "python")
    assert any(home.rglob("acme.py")) is not replaced
