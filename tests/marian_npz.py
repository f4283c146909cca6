"""Small folders of Marian's own files, written without it."""

import json

import numpy as np

D, F, HEADS, LAYERS = 16, 20, 2, 2
TOKENS = ["</s>", "<unk>", *(f"word{i}" for i in range(8)), 'a"b', "it's", ":", "é"]
SETTINGS = {
    "type": "transformer", "enc-depth": LAYERS, "dec-depth": LAYERS, "transformer-heads": HEADS, "dim-emb": D,
    "transformer-preprocess": '""', "transformer-postprocess": "dan", "transformer-postprocess-top": '""',
    "transformer-postprocess-emb": "d", "transformer-ffn-activation": "swish",
    "transformer-guided-alignment-layer": "last", "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": "false",
}  # fmt: skip
PRE = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}

CONFIGURATIONS = {
    "post-norm, one table, swish": {},
    "pre-norm, relu, untied output": {"pre": True, "untied": "W", "activation": "relu"},
    "two layers and one": {"layers": [2, 1]},
    "two vocabularies, gelu": {"tables": ["encoder_Wemb", "decoder_Wemb"], "sizes": [14, 10], "activation": "gelu"},
    "nothing shared": {"tables": ["encoder_Wemb", "decoder_Wemb"], "untied": "Wt"},
}
"""Arguments of `arrays`, and the activation."""


def arrays(pre=False, tables=("Wemb",), untied="", sizes=(14, 14), layers=(LAYERS, LAYERS), seed=0):
    """Return random arrays with Marian's names."""
    shapes = dict(zip(tables, ((size, D) for size in sizes), strict=False))
    shapes["decoder_ff_logit_out_b"] = (1, sizes[1])
    if untied:
        shapes[f"decoder_ff_logit_out_{untied}"] = (sizes[1], D) if untied == "Wt" else (D, sizes[1])
    norms = []
    for stack, n_layers, attentions in zip(
        ("encoder", "decoder"), layers, (["self"], ["self", "context"]), strict=True
    ):
        for i in range(1, n_layers + 1):
            layer = f"{stack}_l{i}"
            for name in attentions:
                shapes |= {f"{layer}_{name}_W{part}": (D, D) for part in "qkvo"}
                shapes |= {f"{layer}_{name}_b{part}": (1, D) for part in "qkvo"}
                norms.append(f"{layer}_{name}_Wo")
            shapes |= {f"{layer}_ffn_W1": (D, F), f"{layer}_ffn_b1": (1, F), f"{layer}_ffn_W2": (F, D)}
            shapes[f"{layer}_ffn_b2"] = (1, D)
            norms.append(f"{layer}_ffn_ffn")
    suffix = "_pre" if pre else ""
    shapes |= {f"{norm}_ln_{part}{suffix}": (1, D) for norm in norms for part in ("scale", "bias")}
    if pre:
        shapes |= {f"{stack}_top_ln_{part}": (1, D) for stack in ("encoder", "decoder") for part in ("scale", "bias")}
    rng = np.random.default_rng(seed)
    found = {name: rng.normal("scale" in name, 0.4, shape).astype("float32") for name, shape in shapes.items()}
    found["decoder_ff_logit_out_b"][0, 0] += 2
    return found


def write_vocabulary(path, tokens=TOKENS):
    def quoted(token):
        return json.dumps(token) if token in (":", 'a"b') else f"'{token.replace(chr(39), chr(39) * 2)}'"

    path.write_text("".join(f"{quoted(token)}: {number}\n" for number, token in enumerate(tokens)))


def write_folder(folder, found=None, settings=None):
    folder.mkdir(exist_ok=True)
    text = "\n".join(f"{name}: {value}" for name, value in (SETTINGS | (settings or {})).items())
    found = {"special:model.yml": np.frombuffer(text.encode() + b"\0", "int8")} | (arrays() if found is None else found)
    np.savez(folder / "model.npz", **found)
    write_vocabulary(folder / "vocab.yml")
    return folder


def write_configuration(folder, name):
    """Write the folder of a configuration; return its arrays, its settings, and the tokens of its vocabularies."""
    options = dict(CONFIGURATIONS[name])
    settings = {"transformer-ffn-activation": options.pop("activation", "swish")}
    settings |= PRE if options.get("pre") else {}
    settings["dec-depth"] = options.get("layers", (LAYERS, LAYERS))[1]
    found, vocabularies = arrays(**options), {"vocab.yml": TOKENS}
    write_folder(folder, found, settings)
    if "tables" in options:
        sizes = options.get("sizes", (len(TOKENS), len(TOKENS)))
        vocabularies = {"source.yml": TOKENS[: sizes[0]], "target.yml": TOKENS[: sizes[1]]}
        for file, tokens in vocabularies.items():
            write_vocabulary(folder / file, tokens)
        rules = "vocabs:\n  - /other/source.yml\n  - target.yml\nbeam-size: '3'\nnormalize: 0.6\n"
        (folder / "decoder.yml").write_text(rules)
    return found, SETTINGS | settings, vocabularies
