"""One line of a backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.counterexample import (
    Claim,
    claims_of,
    judge_claims,
    measure_gradients,
    read_answer,
    read_arrays,
)


def find_the_wrong_attention(counterexample: Callable[..., Any]) -> str:
    """Check the input on which one line of a backward pass is seen to be wrong."""
    names = claims_of("find-the-wrong-attention")
    letter, values = read_answer(counterexample, "abcde", ["q", "k", "v", "d_y"])
    q, k, v, d_y = read_arrays(values, dict.fromkeys(("q", "k", "v", "d_y"), "T D")).values()
    nothing = np.zeros((len(q), len(q)))

    def output(w: Any, v: Any, s: Any, q: Any, k: Any) -> np.ndarray:
        """Return y; w and s are what weights and scores are moved by."""
        scores = q @ k.T / sqrt(q.shape[-1]) + s
        return np.asarray((ops.softmax.forward(scores)[0] + w) @ v)

    inputs = {"d_w": nothing, "d_v": v, "d_s": nothing, "d_q": q, "d_k": k}
    lines = measure_gradients(output, lambda: names["backward"](q, k, v, names["weights"](q, k), d_y), inputs, d_y)
    claims = {
        line: Claim({name: lines.found[name]}, {name: lines.expected[name]})
        for line, name in zip("abcde", inputs, strict=True)
    }
    return judge_claims(letter, "d", claims, "finite differences")
