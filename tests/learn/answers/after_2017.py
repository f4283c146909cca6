"""What came after 2017."""

from learn.answers import in_other_forms

right = [
    # tokens whose place is among the first
    *in_other_forms("top-p", "kept[order[:n]] = p[order[:n]]", "kept = np.where(np.argsort(order) < n, p, 0)"),
    # complex numbers
    *in_other_forms(
        "rotary-forward",
        "return y",
        "z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)\n"
        "    return np.stack((z.real, z.imag), axis=-1).reshape(x.shape)",
    ),
    # sums of segments
    *in_other_forms(
        "grouped-heads-backward",
        "d.reshape(groups).sum(axis=2)",
        "np.add.reduceat(d, np.arange(0, h, h // n_kv_heads), axis=1)",
    ),
]
