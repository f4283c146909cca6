"""The whole model against PyTorch's ``nn.Transformer`` with the same weights: logits and every gradient."""

import numpy as np
import pytest
from toml_cases import toml_table

import minitransformer as mt

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.numpy_only("hands NumPy's arrays to both sides"),
    pytest.mark.referee,
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),  # a speed-up that is not used here
]

SIZES = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "max_length": 9}
SOURCE = np.array([[3, 1, 6, 2, 4, 9], [2, 2, 5, 0, 0, 0], [4, 3, 0, 0, 0, 0]])  # 0 is padding
TARGET = np.array([[1, 5, 4, 4, 7], [1, 2, 0, 0, 0], [1, 3, 5, 8, 0]])
VARIANTS = toml_table(__file__, "VARIANTS")
OF_WEIGHTS = ("norm", "share_embeddings", "attention_bias", "final_norm", "output_bias")
"""The options that the names of the weights depend on."""


def models(pytorch_model, target=10, attention_bias=False, **options):
    ours = mt.nn.Transformer(
        10, target, **SIZES, **options, dropout=0.0, dtype="float64", attention_bias=attention_bias
    )
    return ours, pytorch_model(10, target, **SIZES, **options)


def compare(ours, theirs, relative_error):
    """Hold logits, and the gradients of all parameters for a random gradient of the logits, against each other."""
    logits, others = ours(SOURCE, TARGET), theirs(torch.tensor(SOURCE), torch.tensor(TARGET))
    rng = np.random.default_rng(5)
    d_logits = rng.uniform(0.5, 2.0, logits.shape) * rng.choice((-1.0, 1.0), logits.shape)
    logits.backward(d_logits)
    others.backward(torch.tensor(d_logits))
    errors = {"logits": relative_error(logits.numpy(), others.detach().numpy())}
    gradients = mt.interop.to_pytorch({name: p.grad for name, p in ours.named_parameters()}, SIZES["n_heads"])
    for name, p in theirs.named_parameters(remove_duplicate=False):
        if name in gradients:
            errors[name] = relative_error(gradients.pop(name), p.grad.numpy())
        else:
            assert name.endswith(("in_proj_bias", "out_proj.bias")), name
            assert (p == 0).all()
    assert not gradients
    assert max(errors.values()) <= 1e-10, errors
    return max(errors.values())


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_our_weights_in_pytorch(options, pytorch_model, relative_error):
    ours, theirs = models(pytorch_model, **options)
    rng = np.random.default_rng(7)
    for parameter in ours.parameters():  # gains and biases too
        parameter.data = parameter.data + 0.3 * rng.normal(size=parameter.shape)
    state = mt.interop.to_pytorch(ours.state_dict(), SIZES["n_heads"], zero_biases=True)
    theirs.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    compare(ours, theirs, relative_error)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_pytorchs_weights_here(options, pytorch_model, relative_error):
    ours, theirs = models(pytorch_model, **options)  # whose attention's biases begin as 0
    kept = {key: value for key, value in options.items() if key in OF_WEIGHTS}
    ours.load_state_dict(mt.interop.from_pytorch(theirs.state_dict(), SIZES["n_heads"], **kept))
    compare(ours, theirs, relative_error)
