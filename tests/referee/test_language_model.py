"""A decoder alone against a stack of PyTorch's encoder layers with a causal mask: loss and every gradient."""

import numpy as np
import pytest

import minitransformer as mt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.numpy_only("hands NumPy's arrays to both sides"), pytest.mark.referee]

SIZES = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20}
IDS = np.array([[1, 6, 2, 4, 9, 9], [1, 2, 5, 3, 0, 0], [1, 7, 0, 0, 0, 0]])  # 0 is padding
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "pre-norm, GELU": {"norm": "pre", "activation": "gelu", "attention_bias": True},
}


def theirs(norm="post", activation="relu", attention_bias=False):
    from torch import nn

    sizes = (SIZES["d_model"], SIZES["n_heads"], SIZES["d_ff"])
    layer = nn.TransformerEncoderLayer(
        *sizes, 0.0, getattr(nn.functional, activation), batch_first=True, norm_first=norm == "pre"
    )
    last = nn.LayerNorm(SIZES["d_model"]) if norm == "pre" else None
    return nn.TransformerEncoder(layer, SIZES["n_layers"], last, enable_nested_tensor=False).double().train()


def in_pytorch(arrays):
    """Return arrays by PyTorch's names: the layers are those of an encoder there."""
    names = {"target_embedding": "source_embedding", "decoder": "encoder", "residual3": "residual2"}
    renamed = {".".join(names.get(part, part) for part in name.split(".")): array for name, array in arrays.items()}
    found = mt.interop.to_pytorch(renamed, SIZES["n_heads"], zero_biases=True)
    layers = {name.removeprefix("transformer.encoder."): array for name, array in found.items() if "encoder" in name}
    return found["source_embedding.weight"], layers


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_our_weights_in_pytorch(options, relative_error):
    ours = mt.nn.LanguageModel(10, **SIZES, **options, dtype="float64").eval()
    rng = np.random.default_rng(7)
    for parameter in ours.parameters():  # gains and biases too
        parameter.data = parameter.data + 0.3 * rng.normal(size=parameter.shape)
    table, layers = in_pytorch(ours.state_dict())
    stack = theirs(**options)
    stack.load_state_dict({name: torch.tensor(array) for name, array in layers.items()})
    table = torch.tensor(table, requires_grad=True)

    ids, wanted = torch.tensor(IDS[:, :-1]), torch.tensor(IDS[:, 1:])
    waves = torch.tensor(mt.ops.sinusoidal_positions(ids.shape[1], 12, "float64"))
    later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
    hidden = stack(table[ids] * 12**0.5 + waves, mask=later, src_key_padding_mask=ids == 0)
    other = torch.nn.functional.cross_entropy((hidden @ table.T).flatten(0, 1), wanted.flatten(), ignore_index=0)
    other.backward()
    loss = mt.ops.cross_entropy(ours(IDS[:, :-1]), IDS[:, 1:], ignore_index=0)
    loss.backward()
    assert loss.item() == pytest.approx(other.item(), rel=1e-12)

    d_table, gradients = in_pytorch({name: parameter.grad for name, parameter in ours.named_parameters()})
    errors = {"table": relative_error(d_table, table.grad.numpy())}
    for name, parameter in stack.named_parameters():
        if options.get("attention_bias") or not name.endswith(("in_proj_bias", "out_proj.bias")):
            errors[name] = relative_error(gradients[name], parameter.grad.numpy())
    assert max(errors.values()) <= 1e-10, errors
