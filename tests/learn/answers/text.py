"""Subwords, scores and costs."""

from learn.answers import in_other_forms

right = [
    *in_other_forms("byte-pair-merge", "return best, merged", "return [*best], dict(reversed(merged.items()))"),
    ("layer-costs", lambda n, D, k, r: [2 * n * D * size for size in (n, D, k * D / 2, 2 * r + 1)]),
    *in_other_forms(
        "clipped-matches",
        "sum(min(mine.count(one), theirs.count(one)) for one in set(mine))",
        "len(mine) - sum(max(0, mine.count(one) - theirs.count(one)) for one in set(mine))",
    ),
]
