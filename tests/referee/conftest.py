"""How our results are held against PyTorch's."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import to_numpy

TOLERANCE = 1e-10
FLOOR = 1e-3
"""Entries below this share of their array's largest are held to the accuracy of that share: sums that cancel lose
digits in both libraries."""


def relative_error(ours, theirs, terms=0.0):
    """Return the largest difference, relative to each of PyTorch's entries; infinite entries must be the same.

    ``terms`` is the size of the terms that an entry is the sum of, where all entries may be far smaller.
    """
    ours = to_numpy(ours)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])
    assert np.isfinite(ours[finite]).all()
    ours, theirs = ours[finite], theirs[finite]
    size = np.maximum(np.abs(theirs), FLOOR * np.abs(theirs).max(initial=terms))
    difference = np.abs(ours - theirs)
    # 0 / 0 is agreement; anything else / 0 is not.
    return np.divide(difference, size, out=np.where(difference > 0, np.inf, 0.0), where=size > 0).max(initial=0.0)


def to_torch(array, requires_grad=True):
    import torch

    # A copy: the libraries must not share memory.
    return torch.tensor(np.array(array), requires_grad=requires_grad and np.asarray(array).dtype.kind == "f")


def agree(ours, theirs, arrays, seed=0, terms=0.0):
    """Hold a function of our tensors against one of PyTorch's: the value, and the gradient of every input.

    Parameters
    ----------
    ours, theirs : callable
        Called with one tensor for each array.
    arrays : sequence of array
        float64.
    seed : int
        Seeds the cotangent.
    terms : float
        For ``relative_error``.

    Returns
    -------
    float
        The largest relative error.
    """
    inputs = [mt.Tensor(np.array(array), requires_grad=True) for array in arrays]
    others = [to_torch(array) for array in arrays]
    value, other = ours(*inputs), theirs(*others)
    rng = np.random.default_rng(seed)
    d_value = rng.uniform(0.5, 2.0, value.shape) * rng.choice((-1.0, 1.0), value.shape)
    value.backward(d_value)
    other.backward(to_torch(d_value, requires_grad=False))
    errors = {"value": relative_error(value.numpy(), other.detach().numpy(), terms)}
    for i, (x, y) in enumerate(zip(inputs, others, strict=True)):
        gradient = np.zeros(x.shape) if x.grad is None else x.grad
        other_gradient = np.zeros(x.shape) if y.grad is None else y.grad.numpy()
        errors[f"gradient of input {i}"] = relative_error(gradient, other_gradient, terms)
    assert max(errors.values()) <= TOLERANCE, errors
    return max(errors.values())


@pytest.fixture(scope="session", name="agree")
def agree_fixture():
    return agree


@pytest.fixture(scope="session", name="relative_error")
def relative_error_fixture():
    return relative_error


def pytorch_model(
    source_vocab,
    target_vocab,
    norm="post",
    share_embeddings=True,
    positions="sinusoidal",
    final_norm=None,
    output_bias=False,
    activation="relu",
    layer_norm_eps=1e-5,
    **sizes,
):
    """Return PyTorch's Transformer with what it lacks: embeddings, positions, and the last linear layer.

    Its parts have the names that ``to_pytorch`` writes. Only biases of attention may be more than we have.
    """
    import torch
    from torch import nn

    class Translator(nn.Module):
        def __init__(self, d_model, n_heads, n_layers, d_ff, max_length):
            super().__init__()
            self.source_embedding = nn.Embedding(source_vocab, d_model)
            self.target_embedding = nn.Embedding(target_vocab, d_model)
            self.generator = nn.Linear(d_model, target_vocab, bias=output_bias)
            if share_embeddings in (True, "all", "target"):
                self.generator.weight = self.target_embedding.weight
            if share_embeddings in (True, "all", "inputs") and source_vocab == target_vocab:
                self.source_embedding.weight = self.target_embedding.weight
            if positions == "learned":
                self.source_positions = nn.Embedding(max_length, d_model)
                self.target_positions = nn.Embedding(max_length, d_model)
            self.transformer = nn.Transformer(
                d_model,
                n_heads,
                n_layers,
                n_layers,
                d_ff,
                dropout=0.0,
                batch_first=True,
                norm_first=norm == "pre",
                activation=getattr(nn.functional, activation),
                layer_norm_eps=layer_norm_eps,
            )
            if not (norm == "pre" if final_norm is None else final_norm):
                self.transformer.encoder.norm = self.transformer.decoder.norm = None

        def embed(self, ids, side):
            table = getattr(self, f"{side}_embedding")
            x = table(ids) * table.embedding_dim**0.5
            position = torch.arange(ids.shape[1])
            if positions == "learned":
                return x + getattr(self, f"{side}_positions")(position)
            feature = torch.arange(0, table.embedding_dim, 2, dtype=x.dtype)
            angle = position[:, None] / 10000 ** (feature / table.embedding_dim)
            return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)

        def forward(self, source, target):
            later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
            y = self.transformer(
                self.embed(source, "source"),
                self.embed(target, "target"),
                tgt_mask=later,
                src_key_padding_mask=source == 0,
                tgt_key_padding_mask=target == 0,
                memory_key_padding_mask=source == 0,
            )
            return self.generator(y)

    torch.manual_seed(0)
    return Translator(**sizes).double().train()


@pytest.fixture(scope="session", name="pytorch_model")
def pytorch_model_fixture():
    return pytorch_model


@pytest.fixture(scope="session", name="to_torch")
def to_torch_fixture():
    return to_torch
