# ======================================================================================================================
# The Transformer around your functions: shapes, and sums where a value is used twice. There is no autograd: each part
# returns its result and `back`, which turns the gradient of the result into that of the input, and puts the gradients
# of the parameters into g. The model reads a number in digits and writes it in German.

D, H, F, N = 32, 4, 64, 1  # features, heads, hidden units, layers of each stack
BATCH, STEPS, WARMUP = 32, 1000, 200
SMOOTHING, EPS, MOST = 0.1, 1e-5, 10  # of labels; of layer norm; the most words of a sentence
PAD, START, END = 0, 1, 2

ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
).split()
TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
WORDS = ["", "", "", *ONES, *TENS[2:], "ein", "und", "hundert", "tausend"]


def german(n, one="eins"):
    """Return a number from 1 to 9,999 in words: 432 is vier hundert zwei und dreißig."""
    if n < 20:
        return one if n == 1 else ONES[n]
    if n < 100:
        return f"{german(n % 10, 'ein')} und {TENS[n // 10]}" if n % 10 else TENS[n // 10]
    size, word = (1000, "tausend") if n >= 1000 else (100, "hundert")
    rest = german(n % size, one) if n % size else ""
    return f"{german(n // size, 'ein')} {word} {rest}".rstrip()


def batch(numbers):
    """Return the digits (B, Tk) and the wanted words (B, Tq); each row ends with END and padding."""
    digits = [[int(digit) + 3 for digit in str(n)] for n in numbers]
    words = [[WORDS.index(word) for word in german(n).split()] for n in numbers]
    return [
        np.array([row + [END] + [PAD] * (max(map(len, rows)) - len(row)) for row in rows]) for rows in (digits, words)
    ]


def initial(rng):
    """Return the parameters by name."""
    p = {"source": rng.normal(0, D**-0.5, (13, D)), "target": rng.normal(0, D**-0.5, (len(WORDS), D))}
    p |= {"w_last": xavier(rng, D, len(WORDS)), "b_last": np.zeros(len(WORDS))}
    for layer in (f"{stack}{i}" for stack in ("encoder", "decoder") for i in range(N)):
        for part in ("self", "cross", "network")[:: 1 if layer.startswith("decoder") else 2]:
            p |= {f"{layer} {part} gain": np.ones(D), f"{layer} {part} bias": np.zeros(D)}
            if part == "network":
                p |= {f"{layer} {part} w1": xavier(rng, D, F), f"{layer} {part} b1": np.zeros(F)}
                p |= {f"{layer} {part} w2": xavier(rng, F, D), f"{layer} {part} b2": np.zeros(D)}
            else:
                p |= {f"{layer} {part} w_{one}": xavier(rng, D, D) for one in "qkvo"}
    return p


def embedding(p, name, ids):
    x = embedding_scale(p[name][ids], sinusoidal_positions(ids.shape[1], D))

    def back(d_x, g):
        g[name] = repeated_ids(ids, len(p[name]), d_x * D**0.5)

    return x, back


def attention(p, name, x, memory, mask):
    w_q, w_k, w_v, w_o = (p[f"{name} w_{one}"] for one in "qkvo")
    q, k, v = split_heads(x @ w_q, H), split_heads(memory @ w_k, H), split_heads(memory @ w_v, H)
    scores = scaled_scores(q, k)
    weights = a_row_that_sees_nothing(scores, np.broadcast_to(mask, scores.shape))
    merged = merge_heads(weights @ v)

    def back(d_y, g):
        d_merged, g[f"{name} w_o"] = one_weight_for_a_batch(merged, w_o, d_y)
        d_weights, d_v = weights_and_values_backward(weights, v, split_heads(d_merged, H))
        d_q, d_k = queries_and_keys_backward(q, k, softmax_backward(weights, d_weights))
        d_q, d_k, d_v = merge_heads(d_q), merge_heads(d_k), merge_heads(d_v)
        d_x, g[f"{name} w_q"] = one_weight_for_a_batch(x, w_q, d_q)
        d_from_k, g[f"{name} w_k"] = one_weight_for_a_batch(memory, w_k, d_k)
        d_from_v, g[f"{name} w_v"] = one_weight_for_a_batch(memory, w_v, d_v)
        if memory is x:
            rows = (d.reshape(-1, D) for d in (d_q, d_k, d_v))
            return self_attention_backward(w_q, w_k, w_v, *rows).reshape(x.shape), 0
        return d_x, d_from_k + d_from_v

    return merged @ w_o, back


def network(p, name, x):
    w1, b1, w2, b2 = (p[f"{name} {one}"] for one in ("w1", "b1", "w2", "b2"))
    hidden = np.maximum(0, x @ w1 + b1)

    def back(d_y, g):
        names = [f"{name} {one}" for one in ("w1", "b1", "w2", "b2")]
        d_x, *gradients = feed_forward_backward(x, hidden, w1, w2, d_y)
        g |= dict(zip(names, gradients, strict=True))
        return d_x, 0

    return hidden @ w2 + b2, back


def layer(p, name, part, x, *inputs):
    """Return LayerNorm(x + part(x)); back also returns the gradient of the memory that the part reads."""
    gain, bias, saved = p[f"{name} gain"], p[f"{name} bias"], {}

    def sublayer(x):
        y, saved["back"] = part(p, name, x, *(x if one is None else one for one in inputs))
        return y

    def norm(s):
        saved["x_hat"] = layer_norm_forward(s, np.ones(D), np.zeros(D), EPS)
        saved["r"] = 1 / np.sqrt(s.var(axis=-1, keepdims=True) + EPS)
        return layer_norm_forward(s, gain, bias, EPS)

    def back(d_y, g):
        def sublayer_back(d):
            d_x, saved["d_memory"] = saved["back"](d, g)
            return d_x

        g[f"{name} gain"], g[f"{name} bias"] = gain_and_bias_gradients(saved["x_hat"], d_y)
        d_x = residual_backward(d_y, lambda d: layer_norm_backward(saved["x_hat"], saved["r"], gain, d), sublayer_back)
        return d_x, saved["d_memory"]

    return residual_connection(x, sublayer, norm), back


def model(p, source, seen):
    """Return the logits (B, Tq, V), and the backward pass."""
    source_mask, mask = padding_mask(source), padding_mask(seen) & causal_mask(seen.shape[1])
    memory, source_back = embedding(p, "source", source)
    x, target_back = embedding(p, "target", seen)
    encoder, decoder = [], []
    for i in range(N):
        for part, f, inputs in (("self", attention, (None, source_mask)), ("network", network, ())):
            memory, back = layer(p, f"encoder{i} {part}", f, memory, *inputs)
            encoder.append(back)
    for i in range(N):
        for part, f, inputs in (
            ("self", attention, (None, mask)),
            ("cross", attention, (memory, source_mask)),
            ("network", network, ()),
        ):
            x, back = layer(p, f"decoder{i} {part}", f, x, *inputs)
            decoder.append(back)

    def back(d_logits):
        g, d_memory = {}, np.zeros_like(memory)
        d_x, g["w_last"], g["b_last"] = linear_backward(x, p["w_last"], d_logits)
        for one in reversed(decoder):
            d_x, d_read = one(d_x, g)
            d_memory = d_memory + d_read  # every layer of the decoder reads the same memory
        for one in reversed(encoder):
            d_memory, _ = one(d_memory, g)
        target_back(d_x, g)
        source_back(d_memory, g)
        return g

    return x @ p["w_last"] + p["b_last"], back


def loss(p, source, wanted):
    """Return the loss, and a function that returns the gradients of all parameters."""
    logits, back = model(p, source, shifted_targets(wanted))
    real = wanted != PAD
    q = smoothed_targets(wanted[real], len(WORDS), SMOOTHING)

    def gradients():
        d_logits = np.zeros(logits.shape)
        d_logits[real] = label_smoothing_backward(logits[real], q, 1.0)
        return back(d_logits)

    return cross_entropy_forward(logits[real], q), gradients


def check():
    """Compare every gradient of a small model with your own measurement."""
    rng = np.random.default_rng(0)
    p = {name: x + rng.normal(0, 0.3, x.shape) for name, x in initial(rng).items()}
    source, wanted = batch([7, 432, 60])
    source[0] = PAD  # a sentence that is padding from end to end
    g = loss(p, source, wanted)[1]()
    for name, x in p.items():
        some = tuple(np.arange(min(n, 6)) for n in x.shape)  # the first rows and columns
        place = np.ix_(*some)

        def value(part, name=name, x=x, place=place):
            changed = x.copy()
            changed[place] = part
            return np.asarray(loss(p | {name: changed}, source, wanted)[0])

        n = measured_gradient(value, x[place], np.array(1.0))
        worst = relative_error_with_a_floor(g[name][place], n, 1e-4)
        assert worst < 1e-4, f"the gradient of {name} is off: the relative error is {worst:.2g}"
    print(f"the gradients of all {len(p)} parameters are right")


def translate(p, numbers):
    """Return the words that the model writes, number by number."""
    texts = []
    for source in (batch([n])[0] for n in numbers):
        found = greedy_decoding(lambda tokens, source=source: model(p, source, np.array([tokens]))[0][0, -1], MOST)
        texts.append(" ".join(WORDS[token] for token in found))
    return texts


def train():
    rng = np.random.default_rng(0)
    p = initial(rng)
    means, squares = ({name: np.zeros_like(x) for name, x in p.items()} for _ in range(2))
    held_out = [432, *rng.choice(np.arange(1000, 10000), 99, replace=False).tolist()]
    for step in range(1, STEPS + 1):
        numbers = [n for n in rng.integers(1, 10 ** rng.integers(2, 5, BATCH)).tolist() if n not in held_out]
        value, gradients = loss(p, *batch(numbers))
        rate = warm_up(step, D, WARMUP)
        for name, d in gradients().items():
            p[name], means[name], squares[name] = adam_step(
                p[name], d, means[name], squares[name], step, rate, 0.9, 0.98, 1e-9
            )
        if step % 100 == 0:
            print(f"step {step:4}  loss {value:.3f}  432: {translate(p, [432])[0]}", flush=True)
    right = sum(text == german(n) for n, text in zip(held_out, translate(p, held_out), strict=True))
    print(f"{right} of {len(held_out)} numbers that it has never seen are right")


if __name__ == "__main__":
    check()
    train()
