"""The command `ajet`, and `python -m ajet.launcher`: runs `astuner run` in its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from astuner_ajet.command_line import translate


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the command of astuner that does the same, and replace this process by it."""
    command = translate(sys.argv[1:] if arguments is None else arguments)
    for notice in command.notices:
        print(f"info: {notice}", file=sys.stderr)
    print(f"info: ajet is {command.format_command()}", file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "astuner", *command.arguments])


if __name__ == "__main__":
    main()
