"""A hundred training steps beside PyTorch: model, loss, gradients, Adam and warm-up together, in float64.

How far apart may they be? Every step rounds, and training carries the differences on. How much they grow is a property
of the training, not of a library, so it is measured: our training is run again from parameters that differ in the last
bit. PyTorch may be no farther from us than ``MARGIN`` times that, nor than ``TOLERANCE``. Measured with the rates
below, on four variants and four such runs each: losses differ by at most 1.4e-15 and parameters by 1.4e-15 between
our runs, and by 0.9e-15 and 0.8e-15 from PyTorch's.

The rates are those of the paper's width, 512. Those of a width of 16, up to 0.04, make steps so rough that one
bit grows to 1e-9 (post-norm) and 1e-5 (pre-norm), between our runs as between the libraries.

One thing is left out. The bias of the keys adds the same number to all scores of a query, and the softmax takes it away
again: its gradient is 0 but for rounding. Adam divides that rounding by its own size plus 1e-9, which moves the bias,
by up to 5e-10 in all, each library in its own direction, and to no effect.
"""

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.referee, pytest.mark.numpy_only("hands NumPy's arrays to both sides")]

STEPS, WARMUP = 100, 40
MARGIN, TOLERANCE = 30, 1e-13
KEY_BIAS_TOLERANCE = 1e-8
VOCAB, PAD, SMOOTHING = 12, 0, 0.1
SIZES = {"d_model": 16, "n_heads": 4, "n_layers": 2, "d_ff": 32, "max_length": 9}


def batches():
    """Yield sources and targets of several lengths: the target is the source backwards."""
    rng = np.random.default_rng(41)
    for _ in range(STEPS):
        lengths = rng.integers(2, 7, 8)
        source, target = np.zeros((2, 8, lengths.max() + 1), dtype=np.int64)
        for row, n in enumerate(lengths):
            tokens = rng.integers(2, VOCAB, n)
            source[row, :n], target[row, 1 : n + 1], target[row, 0] = tokens, tokens[::-1], 1
        yield source[:, :-1], target[:, :-1], target[:, 1:]


def rate(step):
    return mt.optim.warmup(step, 512, WARMUP)


def train_ours(options, change=None):
    """Train, and return the losses and the parameters at the end."""
    model = mt.nn.Transformer(VOCAB, VOCAB, **SIZES, **options, dropout=0.0, dtype="float64")
    start = model.state_dict()
    if change is not None:
        for parameter in model.parameters():
            parameter.data = change(parameter.data)
    adam = mt.optim.Adam(model.parameters())
    losses = []
    for step, (source, target, labels) in enumerate(batches(), 1):
        adam.zero_grad()
        loss = mt.ops.cross_entropy(model(source, target), labels, label_smoothing=SMOOTHING, ignore_index=PAD)
        loss.backward(release=True)
        adam.step(rate(step))
        losses.append(loss.item())
    return start, np.array(losses), model.state_dict()


def last_bits_changed(array):
    return np.nextafter(array, np.random.default_rng(43).choice((-np.inf, np.inf), array.shape))


def train_theirs(model, start, options):
    state = mt.interop.to_pytorch(start, SIZES["n_heads"], zero_biases=True)
    model.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    has_biases = options.get("attention_bias", False)
    for name, parameter in model.named_parameters():
        # Biases that we have not stay zero.
        parameter.requires_grad_(has_biases or not name.endswith(("in_proj_bias", "out_proj.bias")))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.Adam(trained, betas=(0.9, 0.98), eps=1e-9)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING, ignore_index=PAD)
    losses = []
    for step, (source, target, labels) in enumerate(batches(), 1):
        adam.param_groups[0]["lr"] = rate(step)
        adam.zero_grad()
        logits = model(torch.tensor(source), torch.tensor(target))
        loss = criterion(logits.flatten(0, 1), torch.tensor(labels).flatten())
        loss.backward()
        adam.step()
        losses.append(loss.item())
    kept = {key: value for key, value in options.items() if key in ("norm", "share_embeddings", "attention_bias")}
    return np.array(losses), mt.interop.from_pytorch(model.state_dict(), SIZES["n_heads"], **kept)


def split(state):
    """Return the parameters without the biases of keys, and those, as two vectors."""
    d = SIZES["d_model"]
    state = dict(sorted(state.items()))
    keys = [array[d : 2 * d] for name, array in state.items() if name.endswith("b_in")]
    others = [
        np.delete(array, slice(d, 2 * d)) if name.endswith("b_in") else array.ravel() for name, array in state.items()
    ]
    return np.concatenate(others), np.concatenate([np.zeros(0), *keys])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@cases_from_toml
def test_a_hundred_steps_stay_together(options, pytorch_model):
    start, losses, parameters = train_ours(options)
    assert losses[-10:].mean() < 0.75 * losses[:10].mean()  # it learns, so there is something to agree on
    _, losses_changed, parameters_changed = train_ours(options, last_bits_changed)
    model_options = {key: value for key, value in options.items() if key != "attention_bias"}
    model = pytorch_model(VOCAB, VOCAB, **SIZES, **model_options)
    losses_theirs, parameters_theirs = train_theirs(model, start, options)
    assert parameters_theirs.keys() == parameters.keys()

    (ours, key_biases), (changed, _) = split(parameters), split(parameters_changed)
    theirs, key_biases_theirs = split(parameters_theirs)
    for own, other, control in ((losses, losses_theirs, losses_changed), (ours, theirs, changed)):
        distance, growth = np.abs(other - own).max(), np.abs(control - own).max()
        assert distance <= min(MARGIN * growth, TOLERANCE), (distance, growth)
    assert np.abs(key_biases_theirs - key_biases).max(initial=0.0) <= KEY_BIAS_TOLERANCE
    moved = np.abs(ours - split(start)[0])
    assert moved.max() > 0.1  # far more than any tolerance


def test_weight_decay_is_that_of_adamw():
    """Of matrices alone: gains and biases are to be in a group without it there."""
    shapes, rng = [(7, 5), (5,), (3, 4, 2), (11,)], np.random.default_rng(44)
    ours = [mt.Tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]
    theirs = [torch.tensor(p.data.copy(), requires_grad=True) for p in ours]
    groups = [{"params": [p for p in theirs if p.ndim == 1], "weight_decay": 0.0}]
    groups.append({"params": [p for p in theirs if p.ndim > 1], "weight_decay": 0.3})
    adam = mt.optim.Adam(ours, weight_decay=0.3)
    adamw = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 101):
        for group in adamw.param_groups:
            group["lr"] = 0.2 / step
        for p, q in zip(ours, theirs, strict=True):
            p.grad = rng.standard_normal(p.shape)
            q.grad = torch.tensor(p.grad)
        adam.step(0.2 / step)
        adamw.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=0, atol=1e-14 * np.abs(p.data).max())
