"""The loss in blocks of target positions: the same loss and gradients as at once, in less memory."""

import tracemalloc

import numpy as np
import pytest

from minitransformer.arrays import asarray, to_numpy
from minitransformer.data import PAD, Batch, TextBatch
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam
from minitransformer.training import training_step

from .steps import gradient_of

SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 10, "dropout": 0.3, "dtype": "float64"}
MODELS = {
    "one table": lambda **options: Transformer(41, 41, **SIZES | options),
    "two": lambda **options: Transformer(11, 41, share_embeddings=False, output_bias=True, **SIZES | options),
    "decoder": lambda **options: LanguageModel(41, norm="pre", **SIZES | options),
}


def batch_of(model, n=5, longest=6, vocab=41):
    """Sentences of different lengths, one of them without any target token that counts."""
    rng = np.random.default_rng(0)
    source, read, written = (rng.integers(1, high, (n, longest)) for high in (11, vocab, vocab))
    for row in range(n):
        length = row * longest // n
        source[row, length + 1 :] = read[row, length + 1 :] = written[row, length:] = PAD
    return Batch(source, read, written) if isinstance(model, Transformer) else TextBatch(read, written)


def gradients(kind, block, micro_batches=1, fixed="none", **options):
    model = MODELS[kind](**options)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = fixed not in name if fixed != "all but the last" else name.startswith("output")
        if parameter.ndim == 1:  # biases begin at 0, which would hide that one is forgotten
            parameter.data = parameter.data + asarray(np.linspace(-0.5, 0.5, parameter.size, dtype=parameter.dtype))
    found = [gradient_of(model, batch_of(model), micro_batches=micro_batches, loss_block=block) for _ in range(2)]
    losses, several = zip(*found, strict=True)
    return losses, several, [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize(
    ("micro_batches", "fixed"), [(1, "none"), (2, "none"), (1, "embedding"), (1, "decoder.layers")]
)
@pytest.mark.parametrize("kind", MODELS)
def test_loss_and_gradients_are_those_at_once(kind, block, micro_batches, fixed):
    (losses, expected, _), (found, several, _) = (gradients(kind, b, micro_batches, fixed) for b in (None, block))
    np.testing.assert_allclose(found, losses, rtol=1e-14)
    assert found[0] != found[1]  # the second step drops out other entries
    for own, other in zip(several, expected, strict=True):
        assert len(own) > 0
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-15)


def test_only_the_last_layer_may_be_trained_and_float32_stays():
    (losses, _, expected), (found, _, own) = (gradients("two", b, fixed="all but the last") for b in (None, 4))
    np.testing.assert_allclose(found, losses, rtol=1e-14)
    assert len(own) == len(expected) == 2  # the matrix and its bias
    np.testing.assert_allclose(to_numpy(own[0]), to_numpy(expected[0]), rtol=1e-12, atol=1e-15)
    assert {gradient.dtype for gradient in gradients("one table", 4, dtype="float32")[2]} == {np.dtype("float32")}


@pytest.mark.numpy_only("tracemalloc sees the memory of the host")
def test_the_logits_are_never_all_in_memory():
    peaks = {}
    for block in (None, 4):
        model = LanguageModel(5000, **SIZES | {"dtype": "float32"})
        batch = batch_of(model, 10, 20, 5000)
        optimiser = Adam(model.parameters())
        training_step(model, optimiser, batch, 0.0, 0.1, loss_block=block)
        tracemalloc.start()
        training_step(model, optimiser, batch, 0.0, 0.1, loss_block=block)
        peaks[block] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    logits = batch.target_output.size * 5000 * 4
    assert peaks[4] < logits / 2 < 2 * logits < peaks[None]
