"""Numbers of a row's tokens as a text: Trinity writes what `Experience.info` holds as JSON too, where arrays have no form."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack_floats(values: NDArray[np.float32]) -> str:
    """Return the text of an array."""
    return b64encode(values.astype("<f4").tobytes()).decode()


def unpack_floats(text: str) -> NDArray[np.float32]:
    """Return the array of a text; empty for an empty one."""
    return np.frombuffer(b64decode(text), "<f4")
