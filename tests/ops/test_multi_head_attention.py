"""The operation multi_head_attention: values head by head, self-attention, errors."""

import numpy as np
import pytest
from passes import multi_head_attention
from passes import scaled_dot_product_attention as attention

import minitransformer as mt
from minitransformer import Tensor
from minitransformer.testing import gradcheck, prove

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(5)
B, TQ, TK, D, H, DK, DV = 2, 3, 4, 5, 6, 7, 8


def parameters():
    return [RNG.normal(size=s) / 3 for s in ((D, H * (2 * DK + DV)), (H * DV, D), (H * (2 * DK + DV),), (D,))]


def slow(x, memory, w_in, w_out, b_in, b_out, mask):
    """Compute each batch and each head on its own."""
    y = np.zeros((*x.shape[:-1], D))
    for b in range(len(x)):
        heads = []
        for h in range(H):
            q, k, v = (slice(o + h * w, o + (h + 1) * w) for o, w in ((0, DK), (H * DK, DK), (2 * H * DK, DV)))
            projections = [m @ w_in[:, s] + b_in[s] for m, s in ((x[b], q), (memory[b], k), (memory[b], v))]
            heads.append(attention.forward(*projections, mask[b, h])[0])
        y[b] = np.concatenate(heads, axis=-1) @ w_out + b_out
    return y


def test_each_head_is_an_attention_of_its_own():
    x, memory = RNG.normal(size=(B, TQ, D)), RNG.normal(size=(B, TK, D))
    mask = RNG.random((B, H, TQ, TK)) < 0.6
    weights = parameters()
    y, _ = multi_head_attention.forward(x, memory, *weights, mask=mask, n_heads=H)
    np.testing.assert_allclose(y, slow(x, memory, *weights, mask), rtol=1e-12, atol=1e-13)


def test_self_attention_is_attention_to_itself():
    x, weights = RNG.normal(size=(B, TQ, D)), parameters()
    y, saved = multi_head_attention.forward(x, None, *weights, n_heads=H)
    other, saved_other = multi_head_attention.forward(x, x, *weights, n_heads=H)
    np.testing.assert_allclose(y, other, rtol=1e-13, atol=1e-14)
    d_y = RNG.normal(size=y.shape)
    d_x, d_memory, *rest = multi_head_attention.backward(saved, d_y)
    assert d_memory is None
    d_x_other, d_memory_other, *rest_other = multi_head_attention.backward(saved_other, d_y)
    for a, b in zip((d_x, *rest), (d_x_other + d_memory_other, *rest_other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_two_heads_read_two_positions_at_once_where_one_head_averages_them():
    """With one head "averaging inhibits this" (section 3.2.2)."""
    x, memory = np.ones((1, 1, 2)), np.eye(2)[None]  # feature f is 1 at position f
    w_q, w_k, w_v = np.full((2, 2), 20.0), np.array([[1.0, -1], [-1, 1]]), np.eye(2)
    w_in = np.concatenate([w_q, w_k, w_v], axis=1)  # head h attends to position h and reads feature h
    y, _ = multi_head_attention.forward(x, memory, w_in, np.eye(2), n_heads=2)
    np.testing.assert_allclose(y, [[[1, 1]]], rtol=1e-12)
    for _ in range(5):  # one head has one weight for each position, and these sum to 1
        w_in[:, :4] = RNG.normal(size=(2, 4))
        y, _ = multi_head_attention.forward(x, memory, w_in, np.eye(2), n_heads=1)
        np.testing.assert_allclose(y.sum(), 1, rtol=1e-12)


def test_a_causal_mask_keeps_the_future_out_exactly():
    x, weights = RNG.normal(size=(1, 5, D)), parameters()
    mask = np.tri(5, dtype=bool)
    y, saved = multi_head_attention.forward(x, None, *weights, mask=mask, n_heads=H)
    d_y = np.zeros_like(y)
    d_y[:, 2] = RNG.normal(size=D)
    d_x = multi_head_attention.backward(saved, d_y)[0]
    assert (d_x[:, 3:] == 0).all()
    assert (d_x[:, :3] != 0).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("to_memory", [False, True])
@pytest.mark.parametrize("block_size", [None, 1, 2, 3, 9])
def test_causal_and_blocks_are_attentions_own(block_size, to_memory, causal):
    rng = np.random.default_rng(8)
    x, memory = rng.normal(size=(B, 5, D)), rng.normal(size=(B, 5 if causal else 7, D)) if to_memory else None
    t_k = 5 if memory is None else memory.shape[1]
    mask = rng.random((B, H, 5, t_k)) < 0.7
    mask[1, 2, 3] = False
    weights = parameters()
    seen = mask & np.tri(5, dtype=bool) if causal else mask
    y, saved = multi_head_attention.forward(x, memory, *weights, mask=seen, n_heads=H)
    d_y = rng.normal(size=y.shape)
    options = {"n_heads": H, "causal": causal, "block_size": block_size}
    found, saved_found = multi_head_attention.forward(x, memory, *weights, mask=mask, **options)
    np.testing.assert_allclose(found, y, rtol=0, atol=1e-13)
    gradients = multi_head_attention.backward(saved, d_y)
    for one, other in zip(multi_head_attention.backward(saved_found, d_y), gradients, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * np.abs(other).max())
    tensors = [None if a is None else Tensor(a) for a in (x, memory, *weights)]
    np.testing.assert_allclose(
        multi_head_attention.reference(*tensors, mask=mask, **options).numpy(), y, rtol=0, atol=1e-13
    )


def test_blocks_have_the_gradient_of_every_input_and_bias():
    """The terms of the keys' biases cancel, and no kept weights show their size: ``prove`` has to see it by itself."""
    rng = np.random.default_rng(9)
    shapes = ((2, 5, 3), (2, 5, 3), (3, 14), (4, 3), (14,), (3,))  # H 1, Dk 5, Dv 4
    x, memory, w_in, w_out, b_in, b_out = (rng.normal(size=shape) for shape in shapes)

    def blocked(x, memory, *weights):
        return multi_head_attention(x, memory, *weights, n_heads=1, causal=True, block_size=2)

    inputs = (x, memory, w_in, w_out, b_in, b_out)
    gradcheck(blocked, inputs, max_entries=100)
    for seed in range(3):
        prove(mt.ops.multi_head_attention, inputs, seed=seed, n_heads=1, causal=True, block_size=2)


def test_queries_that_see_nothing_give_the_bias_alone():
    x, weights = RNG.normal(size=(B, TQ, D)), parameters()
    y, saved = multi_head_attention.forward(x, None, *weights, mask=np.zeros((TQ, TQ), dtype=bool), n_heads=H)
    np.testing.assert_array_equal(y, np.broadcast_to(weights[3], y.shape))
    d_x, _, d_w_in, d_w_out, d_b_in, _ = multi_head_attention.backward(saved, RNG.normal(size=y.shape))
    for gradient in (d_x, d_w_in, d_w_out, d_b_in):
        np.testing.assert_array_equal(gradient, 0)


def test_eight_heads_are_the_default():
    rng = np.random.default_rng(0)
    x, w_in, w_out = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 40)), rng.normal(size=(8, 4))
    eight = multi_head_attention(x, None, w_in, w_out, n_heads=8).numpy()
    np.testing.assert_array_equal(multi_head_attention(x, None, w_in, w_out).numpy(), eight)
    np.testing.assert_allclose(multi_head_attention.reference(Tensor(x), None, w_in, w_out).numpy(), eight, rtol=1e-12)
    assert not np.allclose(multi_head_attention(x, None, w_in, w_out, n_heads=4).numpy(), eight)


@pytest.mark.parametrize("memory", [None, np.random.default_rng(1).normal(size=(2, 5, 4))])
def test_heads_of_one_feature_and_no_gradient_for_what_is_absent(memory):
    rng = np.random.default_rng(0)
    inputs = (rng.normal(size=(2, 3, 4)), memory, rng.normal(size=(4, 10)), rng.normal(size=(6, 4)))  # Dk 1, Dv 3
    prove(mt.ops.multi_head_attention, inputs, n_heads=2)
    y, saved = multi_head_attention.forward(*inputs, n_heads=2)
    gradients = multi_head_attention.backward(saved, rng.normal(size=y.shape))
    assert gradients[4:] == (None, None)
    assert (gradients[1] is None) == (memory is None)
