"""``nn.MultiHeadAttention`` against PyTorch's module of that name."""

import numpy as np
import pytest

import minitransformer as mt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.referee, pytest.mark.numpy_only("hands NumPy's arrays to both sides")]

B, T, D, H = 3, 5, 8, 4
RNG = np.random.default_rng(31)
LENGTHS = np.array([5, 2, 4])


def pair(bias):
    """Return our module and PyTorch's, with the same random weights."""
    options = mt.nn.ModelOptions(d_model=D, n_heads=H, attention_bias=bias, dtype="float64")
    ours = mt.nn.MultiHeadAttention(options, RNG)
    theirs = torch.nn.MultiheadAttention(D, H, bias=bias, batch_first=True, dtype=torch.float64)
    for parameter in ours.parameters():
        parameter.data = RNG.normal(size=parameter.shape) / 2
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.tensor(ours.w_in.data.T))
        theirs.out_proj.weight.copy_(torch.tensor(ours.w_out.data.T))
        if bias:
            theirs.in_proj_bias.copy_(torch.tensor(ours.b_in.data))
            theirs.out_proj.bias.copy_(torch.tensor(ours.b_out.data))
    return ours, theirs


@pytest.mark.parametrize("bias", [False, True], ids=["without bias", "with bias"])
@pytest.mark.parametrize("kind", ["self", "cross"])
@pytest.mark.parametrize("masked", ["no mask", "padding", "causal", "causal and padding", "a query sees nothing"])
def test_outputs_and_all_gradients(bias, kind, masked, agree, relative_error):
    ours, theirs = pair(bias)
    n_keys = T if kind == "self" else T + 1
    arrays = [RNG.normal(size=(B, n, D)) for n in ((T,) if kind == "self" else (T, n_keys))]
    real = np.arange(n_keys) < LENGTHS[:, None] if "padding" in masked else np.ones((B, n_keys), dtype=bool)
    sees = np.tri(T, n_keys, dtype=bool) if "causal" in masked else np.ones((T, n_keys), dtype=bool)
    sees[2] &= masked != "a query sees nothing"
    mask = None if masked == "no mask" else sees & real[:, None, None, :]
    # PyTorch's masks are True where one may not attend.
    hidden = {} if mask is None else {"attn_mask": torch.tensor(~sees), "key_padding_mask": torch.tensor(~real)}

    agree(
        lambda *inputs: ours(*inputs, mask=mask),
        lambda *inputs: theirs(inputs[0], inputs[-1], inputs[-1], need_weights=False, **hidden)[0],
        arrays,
    )
    for parameter, other, axes in (
        (ours.w_in, theirs.in_proj_weight, (1, 0)),
        (ours.w_out, theirs.out_proj.weight, (1, 0)),
        *(((ours.b_in, theirs.in_proj_bias, (0,)), (ours.b_out, theirs.out_proj.bias, (0,))) if bias else ()),
    ):
        assert relative_error(parameter.grad.transpose(axes), other.grad.numpy()) <= 1e-10


def test_attention_maps(relative_error):
    ours, theirs = pair(bias=True)
    x, memory = RNG.normal(size=(B, T, D)), RNG.normal(size=(B, T + 2, D))
    sees = np.tri(T, T + 2, 1, dtype=bool)
    maps = []
    with mt.no_grad():
        ours(mt.Tensor(x), mt.Tensor(memory), mask=sees, maps=maps)
    x, memory = torch.tensor(x), torch.tensor(memory)
    _, weights = theirs(x, memory, memory, attn_mask=torch.tensor(~sees), average_attn_weights=False)
    assert relative_error(maps[0], weights.detach().numpy()) <= 1e-10
