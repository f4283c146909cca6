"""Small folders of CTranslate2, written without it."""

import json
import struct

import numpy as np

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
