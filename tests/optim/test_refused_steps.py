"""What is refused leaves the optimiser as it was."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.optim import Adam


def test_a_step_that_is_refused_does_not_count():
    weight = mt.Tensor(np.ones(3), requires_grad=True)
    optimiser = Adam([weight])
    weight.grad = np.ones(4)
    with pytest.raises(ValueError, match=r"\(4,\)"):
        optimiser.step(0.1)
    with pytest.raises(ValueError, match=r"-0\.1"):
        optimiser.step(-0.1)
    assert optimiser.step_count == 0
