import os
import sys

import pytest

sys.path.insert(0, "/app")

from stats import mean


def test_the_mean_of_the_data():
    with open("/data/numbers.txt", encoding="utf-8") as file:
        assert mean([float(line) for line in file]) == 3


def test_no_numbers():
    with pytest.raises(ValueError, match="no numbers"):
        mean([])


def test_the_variables_of_the_task():
    assert (os.environ["STRICT"], os.environ["STATS_NAME"]) == ("1", "mean")
