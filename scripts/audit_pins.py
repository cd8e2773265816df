"""Asks an index of advisories about every version that users install from our pins, with pip-audit.

`python scripts/audit_pins.py [FILE…]` exits with 1 if there is an advisory, and with 0, saying so, where no index can be reached.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVICES: Mapping[str, str] = {
    "osv": "https://api.osv.dev/v1/vulns/PYSEC-2018-28",
    "pypi": "https://pypi.org/pypi/requests/2.19.0/json",
}
"""By pip-audit's name: an address that answers where the service can be reached."""
ANSWER_S = 20


def find_pins() -> list[Path]:
    """Return the files of pins: those of the tests, and the locks in packages."""
    return [*sorted((ROOT / "constraints").glob("*.txt")), *sorted(ROOT.glob("plugins/*/src/*/venv/lock.txt"))]


def find_service() -> str | None:
    """Return the first service that answers."""
    for name, address in SERVICES.items():
        try:
            with urllib.request.urlopen(address, timeout=ANSWER_S) as answer:
                if answer.status == 200:
                    return name
        except (urllib.error.URLError, OSError) as error:
            print(f"{name}: {address} does not answer ({getattr(error, 'reason', error)})")
    return None


def main() -> int:
    """Audit the files, or all."""
    service = find_service()
    if service is None:
        print("NOT AUDITED: no index of advisories can be reached from here")
        return 0
    failed = 0
    for file in map(Path, sys.argv[1:] or find_pins()):
        # A pin for some systems is asked about on every one.
        lines = [line.partition(";")[0] for line in file.read_text(encoding="utf-8").splitlines()]
        pins = [line.rstrip(" \\") for line in lines if "==" in line and not line.startswith(("#", " "))]
        if not pins:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as asked:
            asked.write("\n".join(pins) + "\n")
            asked.flush()
            print(f"{file}: {len(pins)} versions", flush=True)
            command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", service, "--no-deps", "--disable-pip"]
            failed |= subprocess.run([*command, "--progress-spinner", "off", "--requirement", asked.name], check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
