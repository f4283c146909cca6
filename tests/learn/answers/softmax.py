"""Chapter 5."""

from minitransformer.learn.solutions import solution_of

right = [
    ("cross-entropy-forward", solution_of("cross-entropy-forward", "-(q * log_p).sum(axis=-1).mean()", form))
    for form in (
        "np.mean([-(a * b).sum() for a, b in zip(q, log_p, strict=True)])",
        '-np.einsum("nv,nv->", q, log_p) / len(logits)',
    )
]
