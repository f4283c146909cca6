"""Wherever a process is killed that changes a run folder, the run goes on to the same end, or a message says how.

A share of all kills, drawn with a fixed seed; all of them where MINITRANSFORMER_ROBUSTNESS is ``all``.
"""

import os
import random

import pytest

from robustness.kills import SCENARIOS

ALL = os.environ.get("MINITRANSFORMER_ROBUSTNESS") == "all"
pytestmark = pytest.mark.numpy_only("files are the same with any library")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kill_at_any_change_of_the_folder(kills, name):
    n = kills.count(name)
    for point in range(n) if ALL else sorted(random.Random(7).sample(range(n), 3)):
        kills.kill(name, point)
