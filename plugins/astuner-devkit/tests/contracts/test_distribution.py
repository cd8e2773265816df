from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from astuner_devkit.distribution import write_distribution, write_wheel

FILES = {"acme/judges/strict.py": "WORD = 'strict — π'\n", "acme/prompt.md": "Grade this.\n"}
ENTRY_POINTS = {"astuner.judges": {"strict": "acme.judges.strict:Strict", "kind": "acme.judges.kind:Kind"}}
REQUIRES = ("astuner-core>=0.2,<0.3", 'math-verify; extra == "math"')


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "dist", "acme-judges", "1.2", FILES, ENTRY_POINTS, REQUIRES)


@pytest.fixture
def target(wheel: Path, tmp_path: Path) -> Path:
    """Where pip installed the wheel."""
    directory = tmp_path / "target"
    options = ["-q", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", str(directory)]
    command = [sys.executable, "-m", "pip", "install", *options, str(wheel)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    return directory


def test_pip_installs_the_wheel(target: Path) -> None:
    assert (target / "acme/judges/strict.py").read_text(encoding="utf-8") == FILES["acme/judges/strict.py"]
    assert (target / "acme/judges/__init__.py").is_file()


def test_what_pip_installed_has_the_same_metadata_as_a_written_distribution(target: Path, tmp_path: Path) -> None:
    site = write_distribution(tmp_path / "site", "acme-judges", "1.2", FILES, ENTRY_POINTS, REQUIRES)
    (installed,), (written,) = distributions(path=[str(target)]), distributions(path=[str(site)])
    assert installed.metadata.as_string() == written.metadata.as_string()
    assert list(installed.entry_points) == list(written.entry_points)
    assert installed.metadata.get_all("Provides-Extra") == ["math"]


def test_the_record_of_a_wheel_has_the_hash_and_size_of_its_files(wheel: Path) -> None:
    # What `printf 'Grade this.\n' | openssl dgst -sha256 -binary | basenc --base64url` prints, without the padding.
    assert "acme/prompt.md,sha256=RPpbzQORggUjorezIG09lzkA_qrLKoTNvIvFY6XgsI0,12" in _record(wheel)


def test_every_file_of_a_wheel_is_in_its_record(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert [row.split(",")[0] for row in _record(wheel)] == archive.namelist()


def test_the_same_content_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = write_wheel(tmp_path / "again", "acme-judges", "1.2", FILES, ENTRY_POINTS, REQUIRES)
    assert again.read_bytes() == wheel.read_bytes()


def _record(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("acme_judges-1.2.dist-info/RECORD").decode().splitlines()
