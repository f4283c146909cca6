"""What other programs compute from their own files: slow forward passes, a sentence at a time, in double precision.

Nothing here comes from the package. Each takes the tensors by their names in the file, and ids as the program has them.
"""

from math import pi, sqrt
from types import SimpleNamespace

import numpy as np


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    from math import erf

    return x * (1 + np.vectorize(erf)(x / sqrt(2))) / 2


def gelu_tanh(x):
    return x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2


def swish(x):
    return x * sigmoid(x)


def quick_gelu(x):
    return x * sigmoid(1.702 * x)


def relu(x):
    return np.maximum(x, 0)


def layer_norm(x, gain, bias, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return gain * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + bias


def rms_norm(x, gain, eps):
    return gain * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


def attention(q, k, v, n_heads, causal):
    """Return the heads side by side, before the output projection; queries may share the heads of k and v."""
    size = q.shape[1] // n_heads
    shared = n_heads * size // k.shape[1]
    found = []
    for head in range(n_heads):
        own, other = slice(head * size, head * size + size), slice(head // shared * size, head // shared * size + size)
        scores = q[:, own] @ k[:, other].T / sqrt(size)
        scores = np.where(np.tri(*scores.shape, dtype=bool) | (not causal), scores, -np.inf)
        found.append(softmax(scores) @ v[:, other])
    return np.concatenate(found, axis=1)


def waves(length, d_model, first=0, divisor=None):
    """Return sinusoidal positions, all sines first."""
    angles = (first + np.arange(length))[:, None] / 10000 ** (2 * np.arange(d_model // 2) / (divisor or d_model))
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1)


def encoder_decoder(program, source, target):
    """Return the logits of each token of a target, from the parts that a program names."""

    def sublayer(x, place, compute):
        return x + compute(program.norm(place, x)) if program.pre else program.norm(place, x + compute(x))

    x, y = program.embed("encoder", source), program.embed("decoder", target)
    for i in range(program.n_layers[0]):
        x = sublayer(x, ("encoder", i, "self"), lambda z, i=i: program.attend(("encoder", i, "self"), z, z, False))
        x = sublayer(x, ("encoder", i, "ffn"), lambda z, i=i: program.feed(("encoder", i), z))
    memory = program.last_norm("encoder", x)
    for i in range(program.n_layers[1]):
        y = sublayer(y, ("decoder", i, "self"), lambda z, i=i: program.attend(("decoder", i, "self"), z, z, True))
        y = sublayer(
            y, ("decoder", i, "cross"), lambda z, i=i: program.attend(("decoder", i, "cross"), z, memory, False)
        )
        y = sublayer(y, ("decoder", i, "ffn"), lambda z, i=i: program.feed(("decoder", i), z))
    return program.logits(program.last_norm("decoder", y))


def in_double(tensors):
    return {name: np.asarray(array, "f8") for name, array in tensors.items()}


def marian_mt(config, tensors, source, target):
    """Return the logits of MarianMTModel; ``config`` is that of ``config.json``."""
    t, names = in_double(tensors), {"self": "self_attn", "cross": "encoder_attn", "ffn": "final"}
    act = {"swish": swish, "silu": swish, "gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh,
           "relu": relu, "quick_gelu": quick_gelu}[config.get("activation_function", "gelu")]  # fmt: skip

    def linear(name, x):
        return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]

    def table(stack):
        own = f"model.{stack}.embed_tokens.weight"
        return t[own if own in t else "model.shared.weight"]

    def embed(stack, ids):
        scale = sqrt(config["d_model"]) if config.get("scale_embedding") else 1
        return table(stack)[ids] * scale + waves(len(ids), config["d_model"])

    def norm(place, x):
        name = f"model.{place[0]}.layers.{place[1]}.{names[place[2]]}_layer_norm"
        return layer_norm(x, t[f"{name}.weight"], t[f"{name}.bias"], 1e-5)

    def attend(place, x, memory, causal):
        name = f"model.{place[0]}.layers.{place[1]}.{names[place[2]]}"
        q, k, v = (linear(f"{name}.{one}_proj", z) for one, z in zip("qkv", (x, memory, memory), strict=True))
        return linear(f"{name}.out_proj", attention(q, k, v, config[f"{place[0]}_attention_heads"], causal))

    def feed(place, x):
        name = f"model.{place[0]}.layers.{place[1]}.fc"
        return linear(f"{name}2", act(linear(f"{name}1", x)))

    last = table("decoder") if config.get("tie_word_embeddings", True) else t["lm_head.weight"]
    return encoder_decoder(SimpleNamespace(
        pre=False, n_layers=(config["encoder_layers"], config["decoder_layers"]), embed=embed, norm=norm, attend=attend,
        feed=feed, last_norm=lambda stack, x: x, logits=lambda x: x @ last.T + t.get("final_logits_bias", 0),
    ), source, target)  # fmt: skip


def ctranslate2(config, variables, source, target):
    """Return the logits of CTranslate2's Transformer; ``config`` is that of ``config.json``."""
    numbers = {name: value.item() for name, value in variables.items() if not value.ndim}
    t, parts = in_double(variables), {"self": "self_attention", "cross": "attention", "ffn": "ffn"}
    for name in [name for name in t if f"{name}_scale" in t]:  # of whole numbers, for each row
        t[name] /= t[f"{name}_scale"].reshape(-1, 1)
    act = [relu, gelu_tanh, swish, gelu, quick_gelu][numbers.get("encoder/activation", 0)]
    eps = config.get("layer_norm_epsilon") or 1e-5

    def linear(name, x):
        return x @ t[f"{name}/weight"].T + t.get(f"{name}/bias", 0)

    def norm_at(name, x):
        return layer_norm(x, t[f"{name}/gamma"], t[f"{name}/beta"], eps)

    def embed(stack, ids):
        table = t[f"{stack}/embeddings{'_0' * (stack == 'encoder')}/weight"]
        d_model = table.shape[1]
        x = table[ids] * (sqrt(d_model) if numbers.get(f"{stack}/scale_embeddings", 1) else 1)
        if stack == "decoder" and numbers.get("decoder/start_from_zero_embedding"):
            x[0] = 0
        given = t.get(f"{stack}/position_encodings/encodings")
        return x + (waves(len(ids), d_model, 1, d_model - 2) if given is None else given[: len(ids)])

    def attend(place, x, memory, causal):
        name = f"{place[0]}/layer_{place[1]}/{parts[place[2]]}/linear"
        if place[2] == "self":
            q, k, v = np.split(linear(f"{name}_0", x), 3, axis=1)
        else:
            q, (k, v) = linear(f"{name}_0", x), np.split(linear(f"{name}_1", memory), 2, axis=1)
        last = f"{name}_{1 if place[2] == 'self' else 2}"
        return linear(last, attention(q, k, v, numbers.get(f"{place[0]}/num_heads", 8), causal))

    def feed(place, x):
        name = f"{place[0]}/layer_{place[1]}/ffn/linear"
        return linear(f"{name}_1", act(linear(f"{name}_0", x)))

    def last_norm(stack, x):
        return norm_at(f"{stack}/layer_norm", x) if f"{stack}/layer_norm/gamma" in t else x

    n_layers = [sum(name.startswith(f"{stack}/layer_") and name.endswith("ffn/linear_0/weight") for name in t)
                for stack in ("encoder", "decoder")]  # fmt: skip
    return encoder_decoder(SimpleNamespace(
        pre=numbers.get("encoder/pre_norm", 1), n_layers=n_layers, embed=embed, attend=attend, feed=feed,
        norm=lambda place, x: norm_at(f"{place[0]}/layer_{place[1]}/{parts[place[2]]}/layer_norm", x),
        last_norm=last_norm, logits=lambda x: linear("decoder/projection", x),
    ), source, target)  # fmt: skip


def marian(settings, arrays, source, target):
    """Return the logits of Marian; the first token of the target is the start, whose embedding is zero."""
    t, pre = in_double(arrays), settings["transformer-postprocess"] == "da"
    act = {"swish": swish, "relu": relu, "gelu": quick_gelu}[settings.get("transformer-ffn-activation", "swish")]
    names = {"self": "self_Wo", "cross": "context_Wo", "ffn": "ffn_ffn"}

    def norm_at(name, x):
        return layer_norm(x, t[f"{name[0]}_ln_scale{name[1]}"], t[f"{name[0]}_ln_bias{name[1]}"], 1e-6)

    def table(stack):
        return t["Wemb"] if "Wemb" in t else t[f"{stack}_Wemb"]

    def embed(stack, ids):
        x = table(stack)[ids] * sqrt(table(stack).shape[1])
        x[: stack == "decoder"] = 0
        return x + waves(len(ids), x.shape[1], 0, x.shape[1] - 2)

    def attend(place, x, memory, causal):
        name = f"{place[0]}_l{place[1] + 1}_{'context' if place[2] == 'cross' else 'self'}"
        q, k, v = (
            z @ t[f"{name}_W{one}"] + t[f"{name}_b{one}"] for one, z in zip("qkv", (x, memory, memory), strict=True)
        )
        heads = attention(q, k, v, int(settings["transformer-heads"]), causal)
        return heads @ t[f"{name}_Wo"] + t[f"{name}_bo"]

    def feed(place, x):
        name = f"{place[0]}_l{place[1] + 1}_ffn"
        return act(x @ t[f"{name}_W1"] + t[f"{name}_b1"]) @ t[f"{name}_W2"] + t[f"{name}_b2"]

    def logits(x):
        out = "decoder_ff_logit_out"
        rows = t[f"{out}_Wt"] if f"{out}_Wt" in t else t[f"{out}_W"].T if f"{out}_W" in t else table("decoder")
        return x @ rows.T + t.get(f"{out}_b", 0)

    return encoder_decoder(SimpleNamespace(
        pre=pre, n_layers=(int(settings["enc-depth"]), int(settings["dec-depth"])), embed=embed, attend=attend,
        feed=feed, logits=logits,
        norm=lambda place, x: norm_at((f"{place[0]}_l{place[1] + 1}_{names[place[2]]}", "_pre" * pre), x),
        last_norm=lambda stack, x: norm_at((f"{stack}_top", ""), x) if pre else x,
    ), source, target)  # fmt: skip


def gpt2(config, tensors, ids):
    """Return the logits of GPT2LMHeadModel."""
    t = {name.removeprefix("transformer."): array for name, array in in_double(tensors).items()}
    act = {"gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh, "gelu": gelu, "relu": relu, "silu": swish,
           "swish": swish, "quick_gelu": quick_gelu}[config.get("activation_function", "gelu_new")]  # fmt: skip

    def norm(name, x):
        return layer_norm(x, t[f"{name}.weight"], t[f"{name}.bias"], config.get("layer_norm_epsilon", 1e-5))

    def linear(name, x):
        return x @ t[f"{name}.weight"] + t[f"{name}.bias"]

    x = t["wte.weight"][ids] + t["wpe.weight"][: len(ids)]
    for i in range(config["n_layer"]):
        q, k, v = np.split(linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x)), 3, axis=1)
        x = x + linear(f"h.{i}.attn.c_proj", attention(q, k, v, config["n_head"], True))
        x = x + linear(f"h.{i}.mlp.c_proj", act(linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x))))
    return norm("ln_f", x) @ t["wte.weight" if config.get("tie_word_embeddings", True) else "lm_head.weight"].T


def llama(config, tensors, ids):
    """Return the logits of LlamaForCausalLM, MistralForCausalLM or Qwen2ForCausalLM."""
    t = {name.removeprefix("model."): array for name, array in in_double(tensors).items()}
    n_heads, eps = config["num_attention_heads"], config.get("rms_norm_eps", 1e-6)
    size = config.get("head_dim") or config["hidden_size"] // n_heads
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    base = scaling.get("rope_theta", config.get("rope_theta", 10000.0))
    frequencies = 1 / base ** (2 * np.arange(size // 2) / size)
    if "factor" in scaling:
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = scaling["original_max_position_embeddings"] * frequencies / (2 * pi)
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        frequencies = smooth * frequencies + (1 - smooth) * frequencies / scaling["factor"]
    angles = np.arange(len(ids))[:, None] * np.concatenate((frequencies, frequencies))

    def linear(name, x):
        return x @ t[f"{name}.weight"].T + t.get(f"{name}.bias", 0)

    def turned(x):
        """Return all heads after the rotation by their positions; features i and i + d / 2 are a pair."""
        heads = x.reshape(len(x), -1, size)
        other = np.concatenate((-heads[..., size // 2 :], heads[..., : size // 2]), axis=-1)
        return (heads * np.cos(angles)[:, None] + other * np.sin(angles)[:, None]).reshape(x.shape)

    x = t["embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        y = rms_norm(x, t[f"layers.{i}.input_layernorm.weight"], eps)
        q, k, v = (linear(f"layers.{i}.self_attn.{one}_proj", y) for one in "qkv")
        x = x + linear(f"layers.{i}.self_attn.o_proj", attention(turned(q), turned(k), v, n_heads, True))
        y = rms_norm(x, t[f"layers.{i}.post_attention_layernorm.weight"], eps)
        gate, up = (linear(f"layers.{i}.mlp.{one}_proj", y) for one in ("gate", "up"))
        x = x + linear(f"layers.{i}.mlp.down_proj", swish(gate) * up)
    last = "embed_tokens.weight" if config.get("tie_word_embeddings", False) else "lm_head.weight"
    return rms_norm(x, t["norm.weight"], eps) @ t[last].T


def pytorch(state, n_heads, act, source, target, norm_first=False):
    """Return the logits of torch.nn.Transformer between embeddings, with positions that are learned."""
    t, names = in_double(state), {"self": "self_attn", "cross": "multihead_attn"}
    numbers = {"encoder": {"self": 1, "ffn": 2}, "decoder": {"self": 1, "cross": 2, "ffn": 3}}

    def norm_at(name, x):
        return layer_norm(x, t[f"{name}.weight"], t[f"{name}.bias"], 1e-5)

    def embed(stack, ids):
        side = {"encoder": "source", "decoder": "target"}[stack]
        table = t[f"{side}_embedding.weight"]
        return table[ids] * sqrt(table.shape[1]) + t[f"{side}_positions.weight"][: len(ids)]

    def attend(place, x, memory, causal):
        name = f"transformer.{place[0]}.layers.{place[1]}.{names[place[2]]}"
        weights = np.split(t[f"{name}.in_proj_weight"], 3)
        biases = np.split(t.get(f"{name}.in_proj_bias", np.zeros(3 * x.shape[1])), 3)
        q, k, v = (z @ w.T + b for z, w, b in zip((x, memory, memory), weights, biases, strict=True))
        heads = attention(q, k, v, n_heads, causal)
        return heads @ t[f"{name}.out_proj.weight"].T + t.get(f"{name}.out_proj.bias", 0)

    def feed(place, x):
        name = f"transformer.{place[0]}.layers.{place[1]}.linear"
        inner = act(x @ t[f"{name}1.weight"].T + t[f"{name}1.bias"])
        return inner @ t[f"{name}2.weight"].T + t[f"{name}2.bias"]

    def last_norm(stack, x):
        name = f"transformer.{stack}.norm"
        return norm_at(name, x) if f"{name}.weight" in t else x

    n_layers = [sum(name.startswith(f"transformer.{stack}.") and name.endswith("linear1.weight") for name in t)
                for stack in ("encoder", "decoder")]  # fmt: skip
    return encoder_decoder(SimpleNamespace(
        pre=norm_first, n_layers=n_layers, embed=embed, attend=attend, feed=feed, last_norm=last_norm,
        norm=lambda place, x: norm_at(
            f"transformer.{place[0]}.layers.{place[1]}.norm{numbers[place[0]][place[2]]}", x
        ),
        logits=lambda x: x @ t["generator.weight"].T + t.get("generator.bias", 0),
    ), source, target)  # fmt: skip
