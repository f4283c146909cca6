"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017), complete, in NumPy alone.

`python transformer.py` checks every gradient, trains for half a minute, and translates numbers that
it has never seen, such as 765,432: siebenhundertfünfundsechzigtausendvierhundertzweiunddreißig.
There is no autograd. Each part is a pair of functions, a forward pass and a backward pass:

    y, saved = part(x, *p)                    d_x, d_p = part_backward(d_y, *saved)

p are the parameters of the part. d_y is the gradient of the loss with respect to y, in the shape
of y. A backward pass undoes the lines of the forward pass above it, from the last to the first.
Where a value is used twice, its two gradients are added.

Shapes: B sentences, Tq queries, Tk keys, D features, H heads of Dk = D / H features, F hidden
units, V tokens. A mask is boolean: True = may attend. Sections and equations are the paper's.
Only dropout is left out: few numbers are seen often enough to be memorised.
"""

import numpy as np

D, H, F, N = 64, 4, 256, 2  # features, heads, hidden units, layers in each of the two stacks
BATCH, STEPS, WARMUP, PEAK = 64, 500, 100, 3e-3  # training; PEAK is the highest learning rate
BETA1, BETA2, EPS = 0.9, 0.98, 1e-9  # Adam (section 5.3)
SMOOTHING = 0.1  # of the labels (section 5.4); a perfect model then has a loss of 0.73
HELD_OUT, SHOWN = 500, 765_432  # how many numbers are never trained on; the first of them

# ==== The task: numbers in words. English says thirty-two and German two-and-thirty.

ONES = [""] + """one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen""".split()
TENS = ["", ""] + "twenty thirty forty fifty sixty seventy eighty ninety".split()
EINER = [""] + """eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
    fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()
ZEHNER = ["", ""] + "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()

def english(n):  # 432 -> "four hundred and thirty two"
    if n < 20: return ONES[n]
    if n < 100: return f"{TENS[n // 10]} {ONES[n % 10]}"
    if n < 1000: return f"{ONES[n // 100]} hundred {'and' * (n % 100 > 0)} {english(n % 100)}"
    return f"{english(n // 1000)} thousand {'and' * (0 < n % 1000 < 100)} {english(n % 1000)}"

def german(n, one="eins"):  # 432 -> "vier hundert zwei und dreißig"; one is "ein" inside a word
    if n < 20: return one if n == 1 else EINER[n]
    if n < 100: return f"{german(n % 10, 'ein')} {'und' * (n % 10 > 0)} {ZEHNER[n // 10]}"
    if n < 1000: return f"{german(n // 100, 'ein')} hundert {german(n % 100, one)}"
    return f"{german(n // 1000, 'ein')} tausend {german(n % 1000)}"

WORDS = sorted({word for n in range(1, 2000) for word in f"{english(n)} {german(n)}".split()})
TOKENS, PAD, START = ["<pad>", "<start>", "<end>", *WORDS], 0, 1

def token_ids(texts):  # -> (B, T); padding fills the shorter rows
    lists = [[TOKENS.index(word) for word in text.split()] for text in texts]
    return np.array([ids + [PAD] * (max(map(len, lists)) - len(ids)) for ids in lists])

def draw(rng, least, count):  # numbers from 10^least to 10^6, each length equally often
    return (10 ** rng.uniform(least, 6, count)).astype(int).tolist()

def batch(numbers):  # -> source (B, Tk) and target (B, Tq + 1)
    source = token_ids(f"{english(n)} <end>" for n in numbers)
    return source, token_ids(f"<start> {german(n)} <end>" for n in numbers)

# ==== The parts

def positions(length, d):  # (T, D): sine and cosine in turn, in ever longer waves (section 3.5)
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d)

def embedding(ids, table):  # (B, T) -> (B, T, D): for each token a row of the table (section 3.4)
    waves = positions(ids.shape[1], table.shape[1]).astype(table.dtype)
    return table[ids] * table.shape[1] ** 0.5 + waves, (ids, table)
def embedding_backward(d_x, ids, table):
    d_table = np.zeros_like(table)
    np.add.at(d_table, ids, d_x * table.shape[1] ** 0.5)  # the gradients of a repeated token add up
    return d_table

def rows(x): return x.reshape(-1, x.shape[-1])  # (..., D) -> (R, D): all positions in one list

def linear(x, w):  # (..., D_in) -> (..., D_out)
    return x @ w, (x, w)
def linear_backward(d_y, x, w):
    d_w = rows(x).T @ rows(d_y)  # every position uses w: the product adds up their gradients
    d_x = d_y @ w.T
    return d_x, d_w

def softmax(x, mask):  # over the last axis; the weight is 0 where the mask is False
    x = np.where(mask, x, -np.inf)
    largest = x.max(-1, keepdims=True, initial=np.finfo(x.dtype).min)  # never -inf
    e = np.exp(x - largest)  # from 0 to 1, however large the scores
    y = e / np.maximum(e.sum(-1, keepdims=True), 1)  # the sum is at least 1; 0 if all is masked
    return y, (y,)
def softmax_backward(d_y, y):
    return y * (d_y - (d_y * y).sum(-1, keepdims=True))

def layer_norm(x, gain, bias):  # mean 0 and variance 1 at each position, then a scale and a shift
    centred = x - x.mean(-1, keepdims=True)
    sigma = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    x_hat = centred / sigma
    return x_hat * gain + bias, (x_hat, sigma, gain)
def layer_norm_backward(d_y, x_hat, sigma, gain):
    d_bias = rows(d_y).sum(0)
    d_gain = rows(d_y * x_hat).sum(0)
    d_x_hat = d_y * gain
    d_centred = (d_x_hat - x_hat * (d_x_hat * x_hat).mean(-1, keepdims=True)) / sigma
    d_x = d_centred - d_centred.mean(-1, keepdims=True)
    return d_x, (d_gain, d_bias)

def attention(q, k, v, mask):  # softmax(q kᵀ / sqrt(Dk)) v, equation (1)
    scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, Tq, Tk)
    weights, _ = softmax(scores, mask)
    return weights @ v, (q, k, v, weights)  # (B, H, Tq, Dk)
def attention_backward(d_y, q, k, v, weights):
    d_v = weights.mT @ d_y
    d_weights = d_y @ v.mT
    d_scores = softmax_backward(d_weights, weights) / q.shape[-1] ** 0.5
    d_k = d_scores.mT @ q
    d_q = d_scores @ k
    return d_q, d_k, d_v

def split(x):  # (B, T, D) -> (B, H, T, Dk)
    return x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2)
def merge(x):  # (B, H, T, Dk) -> (B, T, D): undoes split; each is the other's backward pass
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)

def multi_head_attention(x, memory, mask, w_q, w_k, w_v, w_o):  # x asks, the memory answers
    q, saved_q = linear(x, w_q)
    k, saved_k = linear(memory, w_k)
    v, saved_v = linear(memory, w_v)
    heads, saved = attention(split(q), split(k), split(v), mask)
    y, saved_o = linear(merge(heads), w_o)
    return y, (saved_q, saved_k, saved_v, saved, saved_o)
def multi_head_attention_backward(d_y, saved_q, saved_k, saved_v, saved, saved_o):
    d_heads, d_w_o = linear_backward(d_y, *saved_o)
    d_q, d_k, d_v = attention_backward(split(d_heads), *saved)
    d_from_v, d_w_v = linear_backward(merge(d_v), *saved_v)
    d_from_k, d_w_k = linear_backward(merge(d_k), *saved_k)
    d_x, d_w_q = linear_backward(merge(d_q), *saved_q)
    return d_x, d_from_k + d_from_v, (d_w_q, d_w_k, d_w_v, d_w_o)

def feed_forward(x, w1, b1, w2, b2):  # max(0, x w1 + b1) w2 + b2, equation (2)
    a, saved1 = linear(x, w1)
    hidden = np.maximum(0, a + b1)
    y, saved2 = linear(hidden, w2)
    return y + b2, (saved1, hidden, saved2)
def feed_forward_backward(d_y, saved1, hidden, saved2):
    d_b2 = rows(d_y).sum(0)
    d_hidden, d_w2 = linear_backward(d_y, *saved2)
    d_a = d_hidden * (hidden > 0)
    d_b1 = rows(d_a).sum(0)
    d_x, d_w1 = linear_backward(d_a, *saved1)
    return d_x, (d_w1, d_b1, d_w2, d_b2)

def encoder_layer(x, mask, p1, p2, p3, p4):  # sub-layers: LayerNorm(x + Sublayer(x)), section 3.1
    y, saved1 = multi_head_attention(x, x, mask, *p1)
    x, saved2 = layer_norm(x + y, *p2)
    y, saved3 = feed_forward(x, *p3)
    x, saved4 = layer_norm(x + y, *p4)
    return x, (saved1, saved2, saved3, saved4)
def encoder_layer_backward(d_x, saved1, saved2, saved3, saved4):
    d_y, d_p4 = layer_norm_backward(d_x, *saved4)  # the gradient of x + y, so of x and of y
    d_x, d_p3 = feed_forward_backward(d_y, *saved3)
    d_y, d_p2 = layer_norm_backward(d_x + d_y, *saved2)  # x had two uses: the sub-layer, the sum
    d_x, d_memory, d_p1 = multi_head_attention_backward(d_y, *saved1)
    return d_x + d_memory + d_y, (d_p1, d_p2, d_p3, d_p4)

def decoder_layer(x, memory, mask, memory_mask, p1, p2, p3, p4, p5, p6):
    y, saved1 = multi_head_attention(x, x, mask, *p1)
    x, saved2 = layer_norm(x + y, *p2)
    y, saved3 = multi_head_attention(x, memory, memory_mask, *p3)
    x, saved4 = layer_norm(x + y, *p4)
    y, saved5 = feed_forward(x, *p5)
    x, saved6 = layer_norm(x + y, *p6)
    return x, (saved1, saved2, saved3, saved4, saved5, saved6)
def decoder_layer_backward(d_x, saved1, saved2, saved3, saved4, saved5, saved6):
    d_y, d_p6 = layer_norm_backward(d_x, *saved6)
    d_x, d_p5 = feed_forward_backward(d_y, *saved5)
    d_y, d_p4 = layer_norm_backward(d_x + d_y, *saved4)
    d_x, d_memory, d_p3 = multi_head_attention_backward(d_y, *saved3)
    d_y, d_p2 = layer_norm_backward(d_x + d_y, *saved2)
    d_x, d_own, d_p1 = multi_head_attention_backward(d_y, *saved1)
    return d_x + d_own + d_y, d_memory, (d_p1, d_p2, d_p3, d_p4, d_p5, d_p6)

def cross_entropy(logits, targets):  # the mean over all targets that are not padding (section 5.4)
    real = targets != PAD
    x, t = logits[real], targets[real]  # (R, V) and (R,)
    x = x - x.max(-1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    q = np.full_like(log_p, SMOOTHING / x.shape[1])  # what p should be: a little for every token,
    q[np.arange(len(t)), t] += 1 - SMOOTHING  # and the rest for the right one
    return -(q * log_p).sum() / len(t), (log_p, q, real)
def cross_entropy_backward(log_p, q, real):
    d_logits = np.zeros((*real.shape, q.shape[1]), q.dtype)
    d_logits[real] = (np.exp(log_p) - q) / len(q)
    return d_logits

# ==== The model

def model(source, target, table, encoder, decoder):  # ids (B, Tk), (B, Tq) -> logits (B, Tq, V)
    memory_mask = (source != PAD)[:, None, None]  # (B, 1, 1, Tk)
    mask = (target != PAD)[:, None, None] & np.tri(target.shape[1], dtype=bool)  # (B, 1, Tq, Tq)
    saved_encoder, saved_decoder = [], []
    memory, saved_source = embedding(source, table)
    for p in encoder:
        memory, saved = encoder_layer(memory, memory_mask, *p)
        saved_encoder.append(saved)
    x, saved_target = embedding(target, table)
    for p in decoder:
        x, saved = decoder_layer(x, memory, mask, memory_mask, *p)
        saved_decoder.append(saved)
    logits, saved_last = linear(x, table.T)  # the one table is used three times (section 3.4)
    return logits, (saved_source, saved_encoder, saved_target, saved_decoder, saved_last)
def model_backward(d_logits, saved_source, saved_encoder, saved_target, saved_decoder, saved_last):
    d_encoder, d_decoder, d_memory = [], [], 0
    d_x, d_table3 = linear_backward(d_logits, *saved_last)
    for saved in reversed(saved_decoder):
        d_x, d_read, d_p = decoder_layer_backward(d_x, *saved)
        d_memory = d_memory + d_read  # every layer of the decoder reads the same memory
        d_decoder.insert(0, d_p)
    d_table2 = embedding_backward(d_x, *saved_target)
    for saved in reversed(saved_encoder):
        d_memory, d_p = encoder_layer_backward(d_memory, *saved)
        d_encoder.insert(0, d_p)
    d_table1 = embedding_backward(d_memory, *saved_source)
    return d_table1 + d_table2 + d_table3.T, d_encoder, d_decoder

def loss(source, target, *p):  # reads all tokens but the last, predicts all but the first
    logits, saved = model(source, target[:, :-1], *p)
    value, saved_loss = cross_entropy(logits, target[:, 1:])
    return value, (saved, saved_loss)
def loss_backward(saved, saved_loss):
    return model_backward(cross_entropy_backward(*saved_loss), *saved)

def initial(rng, v, d, f, n, dtype):  # the parameters: arrays in nested lists
    def matrix(n_in, n_out):  # uniform, as Glorot and Bengio (2010) draw it
        return (rng.uniform(-1, 1, (n_in, n_out)) * (6 / (n_in + n_out)) ** 0.5).astype(dtype)
    def heads(): return [matrix(d, d) for _ in range(4)]
    def norm(): return [np.ones(d, dtype), np.zeros(d, dtype)]
    def network(): return [matrix(d, f), np.zeros(f, dtype), matrix(f, d), np.zeros(d, dtype)]
    encoder = [[heads(), norm(), network(), norm()] for _ in range(n)]
    decoder = [[heads(), norm(), heads(), norm(), network(), norm()] for _ in range(n)]
    return rng.normal(0, d**-0.5, (v, d)).astype(dtype), encoder, decoder

def leaves(tree):  # the arrays in nested lists, in order
    return [tree] if isinstance(tree, np.ndarray) else [x for part in tree for x in leaves(part)]

# ==== The check: change one number, see how the loss changes, compare with its gradient

def check():
    rng = np.random.default_rng(0)
    p = initial(rng, 9, 8, 6, N, np.float64)
    for x in leaves(p): x += rng.normal(0, 0.3, x.shape)  # no gain is 1 and no bias 0 from here on
    source, target = rng.integers(3, 9, (4, 5)), rng.integers(3, 9, (4, 7))
    source[0, 3:] = source[1] = target[2, 4:] = PAD  # one source is padding from end to end
    gradients = leaves(loss_backward(*loss(source, target, *p)[1]))
    for x, d_x in zip(leaves(p), gradients, strict=True):
        assert d_x.shape == x.shape, f"wrong shape of a gradient: {d_x.shape}, expected {x.shape}"
        for i in np.ndindex(x.shape):
            value = x[i]
            x[i] = value + 1e-5
            above, _ = loss(source, target, *p)
            x[i] = value - 1e-5
            below, _ = loss(source, target, *p)
            x[i] = value
            expected = (above - below) / 2e-5
            if not abs(d_x[i] - expected) < 1e-8 + 1e-6 * abs(expected):  # nan ends here as well
                raise SystemExit(f"wrong gradient: {d_x[i]}, expected {expected}, {i} of {x.shape}")
    print("all", sum(x.size for x in gradients), "gradients of a small model are right")

# ==== Training and translation

def adam(p, gradients, means, squares, step):  # section 5.3, but the rate falls to 0 in a line
    rate = PEAK * min(step / WARMUP, (STEPS + 1 - step) / (STEPS + 1 - WARMUP))
    for x, d_x, m, v in zip(leaves(p), leaves(gradients), means, squares, strict=True):
        m += (1 - BETA1) * (d_x - m)
        v += (1 - BETA2) * (d_x**2 - v)
        x -= rate * (m / (1 - BETA1**step)) / (np.sqrt(v / (1 - BETA2**step)) + EPS)

def translate(numbers, p):  # greedy: the most probable token becomes the next input
    source, target = batch(numbers)[0], np.full((len(numbers), 1), START)
    for _ in range(12):  # the longest number has 11 tokens, then comes <end>
        logits, _ = model(source, target, *p)
        target = np.append(target, logits[:, -1:].argmax(-1), axis=1)
    return ["".join(TOKENS[i] for i in row[1:]).split("<end>")[0] for row in target]

def train():
    rng = np.random.default_rng(0)
    held_out = [SHOWN, *draw(rng, 2, HELD_OUT - 1)]
    p = initial(rng, len(TOKENS), D, F, N, np.float32)
    means, squares = ([np.zeros_like(x) for x in leaves(p)] for _ in range(2))
    for step in range(1, STEPS + 1):
        value, saved = loss(*batch([n for n in draw(rng, 0, BATCH) if n not in held_out]), *p)
        adam(p, loss_backward(*saved), means, squares, step)
        if step % 20 == 0:
            print(f"step {step:3}  loss {value:.3f}  {translate([SHOWN], p)[0]}", flush=True)
    pairs = list(zip(held_out, translate(held_out, p), strict=True))
    for n, text in pairs[1:6]: print(*english(n).split(), "->", text)
    right = sum(text == german(n).replace(" ", "") for n, text in pairs)
    print(f"exact match on {HELD_OUT} held-out numbers: {100 * right / HELD_OUT:.1f} %")

if __name__ == "__main__":
    check()
    train()
