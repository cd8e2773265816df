"""Files of a run."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE

from astuner_trinity.layout import Layout


def test_what_may_hold_a_key_is_its_owners_alone(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    # As an earlier attempt may have left it.
    layout.config.write_text("api_key: x")
    layout.config.chmod(0o644)
    layout.make_private()
    assert [S_IMODE(path.stat().st_mode) for path in (layout.config, layout.log)] == [0o600, 0o600]
    assert layout.config.read_text() == "api_key: x"
