"""Small folders of CTranslate2, written without it."""

import json
import re
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from slow_models import waves

D, F, HEADS = 8, 12, 2
TOKENS = ("<blank>", "<s>", "</s>", *(f"word{i}" for i in range(9)), "<unk>")
TYPES = ("float32", "int8", "int16", "int32", "float16")
CONFIG = {
    "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "decoder_start_token": "<s>",
    "add_source_bos": False, "add_source_eos": False, "layer_norm_epsilon": None,
}  # fmt: skip


def variables(seed=0, n_layers=1):
    """Return the variables of a model of random weights, as OpenNMT-tf's models have them."""
    n_tokens = len(TOKENS)
    shapes = {"decoder/projection/weight": (n_tokens, D), "decoder/projection/bias": (n_tokens,)}
    for stack, attentions in (("encoder", ["self_attention"]), ("decoder", ["self_attention", "attention"])):
        shapes[f"{stack}/embeddings{'_0' * (stack == 'encoder')}/weight"] = (n_tokens, D)
        norms = [f"{stack}/layer_norm"]
        for i in range(n_layers):
            layer = f"{stack}/layer_{i}"
            linear = {"ffn/linear_0": (F, D), "ffn/linear_1": (D, F)}
            for name in attentions:
                sizes = (3, 1) if name == "self_attention" else (1, 2, 1)
                linear |= {f"{name}/linear_{k}": (size * D, D) for k, size in enumerate(sizes)}
            shapes |= {f"{layer}/{name}/weight": shape for name, shape in linear.items()}
            shapes |= {f"{layer}/{name}/bias": shape[:1] for name, shape in linear.items()}
            norms += [f"{layer}/{name}/layer_norm" for name in (*attentions, "ffn")]
        shapes |= {f"{norm}/{name}": (D,) for norm in norms for name in ("gamma", "beta")}
    rng = np.random.default_rng(seed)
    found = {name: rng.normal(0, 0.5, shape).astype("float32") for name, shape in shapes.items()}
    for stack in ("encoder", "decoder"):
        options = {"num_heads": np.int16(HEADS), "pre_norm": np.int8(1), "activation": np.int8(0)}
        found |= {f"{stack}/{name}": np.asarray(value) for name, value in options.items()}
    return found


def of_both(**numbers):
    return {f"{stack}/{name}": np.asarray(np.int8(value)) for stack in ("encoder", "decoder")
            for name, value in numbers.items()}  # fmt: skip


def positions(encoder, decoder):
    tables = {"encoder": encoder, "decoder": decoder}
    return {f"{stack}/position_encodings/encodings": table.astype("f4") for stack, table in tables.items()}


INTERLEAVED = waves(40, D)[:, [0, 4, 1, 5, 2, 6, 3, 7]]
LEARNED = np.sin(np.arange(40.0 * D) ** 2).reshape(40, D)
CONFIGURATIONS = {
    "as OpenNMT-tf has it": ({}, {}),
    "post-norm, swish, an epsilon": (of_both(pre_norm=0, activation=2), {"layer_norm_epsilon": 0.5}),
    "gelu, sources end": (of_both(activation=3), {"add_source_eos": True}),
    "gelu by tanh, not scaled": (of_both(activation=1, scale_embeddings=0), {}),
    "quick gelu, another start": (of_both(activation=4), {"decoder_start_token": "word3"}),
    "interleaved positions": (positions(INTERLEAVED, INTERLEAVED), {}),
    "learned positions": (positions(LEARNED, LEARNED[::-1]), {}),
    "the decoder starts from zeros": ({"decoder/start_from_zero_embedding": np.asarray(np.int8(1))}, {}),
    "half precision": ({"decoder/projection/bias": variables()["decoder/projection/bias"].astype("f2")}, {}),
    "no biases of attention, no final norm": (re.compile("attention/linear.*bias|coder/layer_norm"), {}),
}  # fmt: skip
"""What differs from `variables`, or which of them are left out, and from `CONFIG`."""


def configured(name):
    """Return the variables of a configuration, and its changes of ``config.json``."""
    (changes, config), values = CONFIGURATIONS[name], variables(n_layers=2)
    if isinstance(changes, re.Pattern):
        return {name: value for name, value in values.items() if not changes.search(name)}, config
    return values | changes, config


def text(value):
    data = value.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


def array(value, version=6):
    """Return the bytes of a variable after its name."""
    head = struct.pack("<B", value.ndim) + struct.pack(f"<{value.ndim}I", *value.shape)
    if version >= 4:
        return head + struct.pack("<BI", TYPES.index(str(value.dtype)), value.nbytes) + value.tobytes()
    return head + struct.pack("<BI", value.itemsize, value.size) + value.tobytes()


def model_bin(values, version=6, aliases=(), specification="TransformerSpec", revision=7):
    """Return the bytes of ``model.bin``."""
    data = struct.pack("<I", version) + text(specification) + struct.pack("<II", revision, len(values))
    data += b"".join(text(name) + array(value, version) for name, value in sorted(values.items()))
    if version >= 3:
        data += struct.pack("<I", len(aliases)) + b"".join(text(a) + text(b) for a, b in aliases)
    return data


def write_folder(folder, values=None, tokens=TOKENS, config=None, **how):
    """Write a folder; config holds values that differ."""
    folder.mkdir(exist_ok=True)
    (folder / "model.bin").write_bytes(model_bin(variables() if values is None else values, **how))
    (folder / "config.json").write_text(json.dumps(CONFIG | (config or {})))
    (folder / "shared_vocabulary.txt").write_text("".join(f"{token}\n" for token in tokens))
    return folder


class Specification(SimpleNamespace):
    """The specifications of the package ctranslate2 in the little that an export asks of them; saved as its own are."""

    @classmethod
    def from_config(cls, n_layers, n_heads, pre_norm=True, no_final_norm=False, activation=0):
        found = cls(n_layers=n_layers, has_final_norm=pre_norm and not no_final_norm, vocabularies={}, weights={})
        found.encoder, found.decoder, found.config = SimpleNamespace(), SimpleNamespace(), SimpleNamespace()
        for stack in (found.encoder, found.decoder):
            stack.num_heads, stack.activation = np.int16(n_heads), np.int8(activation)
        return found

    def register_source_vocabulary(self, tokens):
        self.vocabularies["source"] = tokens

    def register_target_vocabulary(self, tokens):
        self.vocabularies["target"] = tokens

    def validate(self):
        """Check that all parameters of the layers are there, and no others."""
        layers = {
            part.partition("layer_")[2].partition("/")[0] + part[:1] for part in self.weights if "/layer_" in part
        }
        assert layers >= {f"{i}{stack}" for stack, n in zip("ed", self.n_layers, strict=True) for i in range(n)}
        assert ("encoder/layer_norm" in self.weights) == ("decoder/layer_norm" in self.weights) == self.has_final_norm
        assert not hasattr(self, "quantized")

    def optimize(self, quantization):
        self.quantized = quantization

    def save(self, folder):
        values = {f"{part}/{name}": value for part, one in self.weights.items() for name, value in vars(one).items()}
        for stack in ("encoder", "decoder"):
            numbers = vars(getattr(self, stack)).items()
            values |= {f"{stack}/{name}": np.asarray(value, "i2") for name, value in numbers}
        (Path(folder) / "model.bin").write_bytes(model_bin(values))
        (Path(folder) / "config.json").write_text(json.dumps(CONFIG | vars(self.config)))
        for side, tokens in self.vocabularies.items():
            name = "shared" if [*self.vocabularies.values()] == [tokens] * 2 else side
            (Path(folder) / f"{name}_vocabulary.json").write_text(json.dumps(tokens))


def without_ctranslate2(monkeypatch):
    """Let a run be written for CTranslate2 where the package is not installed."""
    specs = SimpleNamespace(TransformerSpec=Specification, Activation=int)
    index = SimpleNamespace(index_spec=lambda spec, part: spec.weights.setdefault(part, SimpleNamespace()))
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", specs)
    monkeypatch.setitem(sys.modules, "ctranslate2.specs.model_spec", index)
