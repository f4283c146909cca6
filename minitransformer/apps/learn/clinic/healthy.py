"""A small Transformer learns to write digits backwards: 3 1 4 becomes 4 1 3."""

import numpy as np

from minitransformer import nn, ops, optim
from minitransformer.autograd import no_grad
from minitransformer.data import END, PAD, START, pad

SEED, STEPS, BATCH, LONGEST = 1, 250, 64, 5
PEAK, WARMUP = 0.025, 100
OPTIONS = nn.ModelOptions(d_model=32, n_heads=4, d_ff=64, dropout=0.1)
VOCABULARY = 13  # padding, start, end and ten digits


def draw_batch(rng):
    """Return digits, and the same digits backwards from START to END: (B, Tk) and (B, Tq + 1)."""
    rows = [rng.integers(3, VOCABULARY, n).tolist() for n in rng.integers(1, LONGEST + 1, BATCH)]
    return pad([[*row, END] for row in rows]), pad([[START, *reversed(row), END] for row in rows])


class DecoderLayer(nn.Module):
    def __init__(self, rng):
        self.self_attention = nn.MultiHeadAttention(OPTIONS, rng)
        self.cross_attention = nn.MultiHeadAttention(OPTIONS, rng)
        self.feed_forward = nn.FeedForward(OPTIONS, rng)
        self.residuals = [nn.Residual(OPTIONS) for _ in range(3)]

    def __call__(self, x, memory, target_mask, source_mask, rng):
        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=target_mask), rng)
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, mask=source_mask), rng)
        return self.residuals[2](x, self.feed_forward, rng)


class Model(nn.Module):
    def __init__(self, rng):
        self.rng, self.training = rng, True
        self.table = nn.Parameter(np.zeros((VOCABULARY, OPTIONS.d_model), "float32"))
        self.encoder = nn.EncoderLayer(OPTIONS, rng)
        self.decoder = [DecoderLayer(rng) for _ in range(2)]
        for weight in self.parameters():
            if weight.ndim == 2:
                weight.data[...] = rng.normal(0, (2 / sum(weight.shape)) ** 0.5, weight.shape)

    def embed(self, ids, rng):
        x = ops.embedding(ids, self.table) * OPTIONS.d_model**0.5
        x = x + ops.sinusoidal_positions(ids.shape[1], OPTIONS.d_model, "float32")
        return x if rng is None else ops.dropout(x, OPTIONS.dropout, rng)

    def __call__(self, source, target):
        """Return the scores of the token that follows each target token: (B, Tq, V)."""
        rng = self.rng if self.training else None  # for dropout
        source_mask = (source != PAD)[:, None, None, :]
        target_mask = (target != PAD)[:, None, None, :] & ops.causal_mask(target.shape[1])
        memory = self.encoder(self.embed(source, rng), source_mask, rng)
        x = self.embed(target, rng)
        for layer in self.decoder:
            x = layer(x, memory, target_mask, source_mask, rng)
        return ops.linear(x, self.table.T)


def learning_rate(step):
    return PEAK * min(step / WARMUP, (STEPS + 1 - step) / (STEPS + 1 - WARMUP))


def train(watch):
    """Train a model and return it; `watch` is called after each step."""
    rng = np.random.default_rng(SEED)
    model = Model(rng)
    optimiser = optim.Adam(model.parameters())
    for step in range(1, STEPS + 1):
        source, target = draw_batch(rng)
        optimiser.zero_grad()
        logits = model(source, target[:, :-1])
        loss = ops.cross_entropy(logits, target[:, 1:], ignore_index=PAD)
        loss.backward()
        optimiser.step(learning_rate(step))
        watch(model, step, float(loss.data))
    return model


def write(model, source):
    """Return what the model writes for each row of digits: at each step the token with the highest score."""
    model.training = False
    target = np.full((len(source), 1), START)
    with no_grad():
        for _ in range(LONGEST + 1):
            logits = model(source, target).data[:, -1]
            target = np.column_stack([target, logits.argmax(axis=-1)])
    return target[:, 1:]


if __name__ == "__main__":
    train(lambda model, step, loss: step % 50 or print(f"step {step}: loss {loss:.3f}"))
