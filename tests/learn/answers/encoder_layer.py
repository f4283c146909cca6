"""The last exercise of chapter 8."""

from learn.answers import in_other_forms

NAME = "encoder-layer-backward"
right = [
    *in_other_forms(NAME, "inside + d_s2", "np.add(inside, d_s2)"),
    *in_other_forms(NAME, '"d_x"] + share\n    return d\n', '"d_x"] + share\n    d["d_c"] = d_c\n    return d\n'),
]
