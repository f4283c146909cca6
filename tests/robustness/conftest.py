"""What the tests of robustness share."""

import pytest

from robustness.kills import Kills


@pytest.fixture(scope="session")
def kills(tmp_path_factory):
    """Return the runs that are changed; making them takes half a second."""
    return Kills(tmp_path_factory.mktemp("kills"))
