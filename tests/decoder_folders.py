"""Small folders of GPT-2, Llama and llama2.c, written without transformers, and what reads their tokens."""

import json
import struct
import sys
from types import SimpleNamespace

import numpy as np
from safetensors.numpy import save_file

WORDS = ["a", "START", "b", "END", "UNK", *"cdef"]
SPECIAL = {"unknown": 4, "start": 1, "end": 3}
GPT2 = {
    "model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "n_inner": 5, "n_positions": 7, "vocab_size": 9,
    "activation_function": "gelu", "layer_norm_epsilon": 0.01, "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 3,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "num_hidden_layers": 2, "intermediate_size": 5, "max_position_embeddings": 70, "attention_bias": True,
    "rms_norm_eps": 0.01, "rope_theta": 50.0, "tie_word_embeddings": False, "vocab_size": 9, "bos_token_id": 1,
    "eos_token_id": 3,
}  # fmt: skip
SLOW_PAIRS = {
    "rope_type": "llama3", "rope_theta": 600.0, "factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
CONFIGS = {"gpt2": GPT2, "llama": LLAMA}


def tokenizer_json(begins=True, unknown="UNK"):
    """Return a file of words between spaces; if ``begins``, each text gets the start token."""
    ids = {word: number for number, word in enumerate(WORDS)}
    parts = [{"SpecialToken": {"id": "START", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    template = {
        "type": "TemplateProcessing", "single": parts, "pair": [*parts, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"START": {"id": "START", "ids": [ids["START"]], "tokens": ["START"]}},
    }  # fmt: skip
    end = {"id": ids.pop("END"), "content": "END", "special": True}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0", "added_tokens": [end], "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": template if begins else None,
        "model": {"type": "WordLevel", "unk_token": unknown, "vocab": ids},
    }  # fmt: skip


def tensors(config, seed=0, dtype="float64"):
    """Return random tensors of the shapes that a configuration says."""
    if config["model_type"] == "gpt2":
        d, f, n = config["n_embd"], config["n_inner"], config["n_layer"]
        shapes = {"transformer.wte.weight": (9, d), "transformer.wpe.weight": (config["n_positions"], d)}
        for i in range(n):
            linear = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, f), "mlp.c_proj": (f, d)}
            for name, shape in linear.items():
                shapes |= {f"transformer.h.{i}.{name}.weight": shape, f"transformer.h.{i}.{name}.bias": shape[1:]}
        norms = [f"transformer.{name}" for i in range(n) for name in (f"h.{i}.ln_1", f"h.{i}.ln_2")]
        for name in (*norms, "transformer.ln_f"):
            shapes |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    else:
        d, f, n = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
        q, k = (config["head_dim"] * config[name] for name in ("num_attention_heads", "num_key_value_heads"))
        shapes = {"model.embed_tokens.weight": (9, d), "model.norm.weight": (d,)}
        biased = "qkv" if config["model_type"] == "qwen2" else "qkvo" * config.get("attention_bias", False)
        for i in range(n):
            layer = f"model.layers.{i}"
            shapes |= {f"{layer}.{name}.weight": (d,) for name in ("input_layernorm", "post_attention_layernorm")}
            linear = {"self_attn.q_proj": (q, d), "self_attn.k_proj": (k, d), "self_attn.v_proj": (k, d),
                      "self_attn.o_proj": (d, q), "mlp.gate_proj": (f, d), "mlp.up_proj": (f, d),
                      "mlp.down_proj": (d, f)}  # fmt: skip
            shapes |= {f"{layer}.{name}.weight": shape for name, shape in linear.items()}
            shapes |= {f"{layer}.self_attn.{one}_proj.bias": linear[f"self_attn.{one}_proj"][:1] for one in biased}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (9, d)
    rng = np.random.default_rng(seed)
    return {name: rng.normal(len(shape) == 1, 0.6, shape).astype(dtype) for name, shape in shapes.items()}


def write_folder(folder, kind, begins=True, **changes):
    """Write a folder of a kind; changes are values of ``config.json``."""
    config = CONFIGS[kind] | changes
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(begins)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "a template"}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 5], "temperature": 0.5}))
    save_file(tensors(config), folder / "model.safetensors")
    return folder


class Tokenizer:
    """What the package tokenizers does with the files above, and with those made for llama2.c, without their texts."""

    def __init__(self, text):
        self.file = json.loads(text)
        self.model = SimpleNamespace(unk_token=self.file["model"].get("unk_token"))
        self.vocab = self.file["model"]["vocab"] | {one["content"]: one["id"] for one in self.file["added_tokens"]}
        self.token_to_id, self.get_vocab_size = self.vocab.get, self.vocab.__len__
        self.no_padding = self.no_truncation = lambda: None

    def get_vocab(self, with_added_tokens=True):
        return dict(self.vocab)

    def id_to_token(self, number):
        return {place: token for token, place in self.vocab.items()}.get(number)

    def encode(self, text, add_special_tokens=True):
        first = (self.file.get("post_processor") or {"special_tokens": {}})["special_tokens"].values()
        ids = [i for one in first for i in one["ids"]] * add_special_tokens
        return SimpleNamespace(ids=ids + [self.vocab.get(word, self.vocab.get("UNK")) for word in text.split()])


def without_tokenizers(monkeypatch):
    """Let a decoder alone be read where the package tokenizers is not installed."""
    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=SimpleNamespace(from_str=Tokenizer)))


def llama2c_tokens(pairs):
    """Return a ``tokenizer.bin`` from tokens and scores."""
    encoded = [(token.encode(), score) for token, score in pairs]
    return struct.pack("<i", 9) + b"".join(struct.pack("<fi", score, len(one)) + one for one, score in encoded)
