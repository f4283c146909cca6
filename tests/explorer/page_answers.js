// The answers of a server about a model of two heads and one layer in each stack. All numbers are formulas of their names
// and places, so that each is another one.

const vocabulary = (...words) => ["<pad>", "<start>", "<end>", "<unk>", ...words];
const SOURCES = vocabulary("two", "small", "words"), TARGETS = vocabulary("zwei", "kleine", "Wörter", "Worte");
export const TEXT = "two small words";
const D = 4, HEADS = 2, WIDE = 3, F = 5; // the width of the model, its heads, that of a head, and of the layer inside a feed-forward network

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
const size = (shape) => shape.reduce((n, one) => n * one, 1);
const seed = (name) => [...name].reduce((hash, sign) => (31 * hash + sign.codePointAt(0)) % 9973, 7);

/** Return a function of a key and a shape that computes each of its answers once. */
function once(compute) {
  const known = new Map();
  return (key, shape) => {
    const name = `${key} ${shape}`;
    if (!known.has(name)) known.set(name, compute(key, shape));
    return known.get(name);
  };
}

/** Return the values of a key: attention weights in rows that sum to 1, gradients a tenth as large as values. */
export const valuesOf = once((key, shape) => {
  const raw = Float64Array.from({ length: size(shape) }, (_, i) => Math.sin(seed(key) + 1.7 * i + 0.3 * i * i));
  if (!/\.weights$/.test(key)) return raw.map((x) => (/^d:|\.d_/.test(key) ? x / 10 : x));
  const columns = shape.at(-1), rows = raw.map((x) => Math.exp(2 * x));
  return rows.map((x, i) => x / sum([...rows.subarray(columns * Math.floor(i / columns), columns * (Math.floor(i / columns) + 1))]));
});

const statistics = once((key, shape) => {
  const values = [...valuesOf(key, shape)], mean = sum(values) / values.length;
  return { mean, spread: Math.sqrt(sum(values.map((x) => (x - mean) ** 2)) / values.length), least: Math.min(...values), most: Math.max(...values),
    norm: Math.sqrt(sum(values.map((x) => x * x))) };
});

const token = (ids, names) => ids.map((id) => ({ id, text: names[id] }));

/** Return the lines of an operation: "function.name" with a shape, and the number of its line. */
function linesOf(key, entries) {
  return entries.map(([name, shape, line]) => {
    const [owner, ...rest] = name.split("."), full = `${key}:${name}`;
    return { line, name: rest.join("."), key: full, function: owner, depth: key.endsWith(owner) ? 0 : 1, shape, stat: statistics(full, shape) };
  });
}

function attention(queries, keys) {
  const own = "multi_head_attention", product = "scaled_dot_product_attention", scores = [1, HEADS, queries, keys], read = [1, HEADS, keys, WIDE], asked = [1, HEADS, queries, WIDE], joined = [1, queries, HEADS * WIDE];
  return {
    forward: [[`${own}.mask`, [1, 1, 1, keys], 12], [`${own}.q`, asked, 14], [`${own}.k`, read, 14], [`${own}.v`, read, 14], [`${product}.scores`, scores, 32],
      ["softmax.y", scores, 52], [`${product}.weights`, scores, 33], [`${own}.concat`, joined, 15], [`${own}.y`, [1, queries, D], 16]],
    backward: [[`${own}.d_concat`, joined, 22], [`${product}.d_weights`, scores, 42], [`${product}.d_scores`, scores, 43], [`${own}.d_q`, asked, 23],
      [`${own}.d_k`, read, 23], [`${own}.d_v`, read, 23]],
  };
}

/** Return the trace of a model, of its source and target ids; alone: of a decoder without an encoder; layers: the numbers of those of the encoder. */
export function traceOf({ objective = { kind: "loss" }, edits = [], source = [4, 5, 6, 2], target = [4, 5, 2], alone = false, norm = "post", layers = [0], id = "trace" } = {}) {
  const steps = [], parameters = new Map(), n = target.length, most = TARGETS.length;
  const add = (key, inputs, shape, { forward = [], backward = [] } = {}, options = {}, line = null) => {
    const slash = key.indexOf("/"), place = key.slice(0, slash), operation = key.slice(slash + 1).replace(/\.\d+$/, "");
    const read = inputs.map(([name, from, given]) => ({ name, key: from, shape: given ?? steps.find((one) => one.key === from).shape }));
    for (const one of read) if (one.key && !one.key.includes("/")) parameters.set(one.key, one.shape);
    steps.push({ key, place, operation, inputs: read, options, shape, value: statistics(key, shape), gradient: statistics(`d:${key}`, shape),
      forward: linesOf(key, forward), backward: linesOf(key, backward), model_line: line && { file: "nn/layers.py", line, text: `return ops.${operation}(x)  # ${line}` } });
    return key;
  };
  const embed = (place, ids, names) => {
    const rows = [1, ids.length, D], table = [names.length, D];
    const looked = add(`${place}/embedding`, [["ids", null, [1, ids.length]], ["table", `${place}.table`, table]], rows, { forward: [["embedding.ids", [1, ids.length], 61], ["embedding.y", rows, 62]], backward: [["embedding.d_table", table, 65]] });
    const scaled = add(`${place}/multiply`, [["x", looked]], rows, {}, { y: 2 });
    return add(`${place}/add`, [["x", scaled], ["y", null, [ids.length, D]]], rows, { forward: [["add.y", [ids.length, D], 105]] });
  };
  const residual = (place, x, inside) => {
    const shape = steps.find((one) => one.key === x).shape, normed = (from) => add(`${place}.layer_norm/layer_norm`, [["x", from], ["gain", `${place}.layer_norm.gain`, [D]], ["bias", `${place}.layer_norm.bias`, [D]]], shape,
      { forward: [["layer_norm.x_hat", shape, 83], ["layer_norm.y", shape, 84]], backward: [["layer_norm.d_x", shape, 91]] }, { eps: 1e-5 }, 262);
    const joined = (from) => add(`${place}/add`, [["x", x], ["y", inside(from)]], shape, { backward: [["add.d_x", shape, 5], ["add.d_y", shape, 6]] });
    return norm === "post" ? normed(joined(x)) : joined(normed(x));
  };
  const attend = (place, x, memory, causal) => {
    const queries = steps.find((one) => one.key === x).shape[1], keys = memory ? source.length : queries;
    return add(`${place}/multi_head_attention`, [["x", x], ...(memory ? [["memory", memory]] : []), ["w_in", `${place}.w_in`, [D, 3 * HEADS * WIDE]], ["w_out", `${place}.w_out`, [HEADS * WIDE, D]], ["mask", null, [1, 1, 1, keys]]],
      [1, queries, D], attention(queries, keys), { n_heads: HEADS, causal }, 104);
  };
  const feed = (place, x) => {
    const rows = steps.find((one) => one.key === x).shape[1];
    return add(`${place}/feed_forward`, [["x", x], ["w1", `${place}.w1`, [D, F]], ["b1", `${place}.b1`, [F]], ["w2", `${place}.w2`, [F, D]]], [1, rows, D],
      { forward: [["feed_forward.a", [1, rows, F], 71], ["feed_forward.hidden", [1, rows, F], 72]], backward: [["feed_forward.d_hidden", [1, rows, F], 77]] }, {}, 231);
  };
  let memory = null;
  if (!alone) {
    memory = embed("source_embedding", source, SOURCES);
    for (const layer of layers.map((i) => `encoder.layers.${i}`)) {
      memory = residual(`${layer}.residual1`, memory, (from) => attend(`${layer}.self_attention`, from, null, false));
      memory = residual(`${layer}.residual2`, memory, (from) => feed(`${layer}.feed_forward`, from));
    }
  }
  let x = residual("decoder.layers.0.residual1", embed("target_embedding", target, TARGETS), (from) => attend("decoder.layers.0.self_attention", from, null, true));
  if (!alone) x = residual("decoder.layers.0.residual2", x, (from) => attend("decoder.layers.0.cross_attention", from, memory, false));
  x = residual(`decoder.layers.0.residual${alone ? 2 : 3}`, x, (from) => feed("decoder.layers.0.feed_forward", from));
  const turned = add("/transpose", [["x", "target_embedding.table", [most, D]]], [D, most]);
  const logits = add("/linear", [["x", x], ["weight", turned]], [1, n, most], { forward: [["linear.y", [1, n, most], 76]], backward: [["linear.d_x", [1, n, D], 86], ["linear.d_weight", [D, most], 87]] }, {}, 174);
  if (objective.kind === "loss") {
    add("/cross_entropy", [["logits", logits], ["targets", null, [1, n]]], [], { forward: [["cross_entropy.targets", [1, n], 110], ["cross_entropy.p", [n, most], 122], ["cross_entropy.losses", [n], 123]], backward: [["cross_entropy.p", [n, most], 131], ["cross_entropy.d_x", [n, most], 132]] },
      { label_smoothing: 0.1, ignore_index: 0 });
  } else {
    const scores = add("/log_softmax", [["x", logits]], [1, n, most]), picked = add("/index", [["x", scores]], []);
    if (objective.kind === "difference") add("/subtract", [["x", picked], ["y", add("/index.1", [["x", scores]], [])]], []);
  }
  const readers = (key) => steps.flatMap((step) => step.inputs.filter((one) => one.key === key).map((one) => ({ from: step.key, input: one.name, norm: statistics(`${step.key}:${one.name}`, step.shape).norm })));
  const walk = [...steps].reverse().flatMap((step) => [{ key: step.key, parts: readers(step.key) }, ...step.inputs.filter((one) => parameters.has(one.key) && steps.find((other) => other.inputs.some(({ key }) => key === one.key)) === step)
    .map((one) => ({ key: one.key, parts: readers(one.key) }))]);
  return {
    id, source: alone ? [] : token(source, SOURCES), target_in: token([1, ...target.slice(0, -1)], TARGETS), target_out: token(target, TARGETS), objective: { ...objective, value: statistics(JSON.stringify([objective, edits]), []).mean + 1.5 },
    prediction: edits.length ? { before: 1.25, after: 0.9, first_order: 1.5 } : null, steps, walk,
    parameters: [...parameters].map(([key, shape]) => ({ key, shape, value: statistics(key, shape), gradient: statistics(`d:${key}`, shape) })), notes: [],
  };
}

/** Return the description of the model; alone: without an encoder. */
export function modelOf({ alone = false, layers = 1, options = {}, ...other } = {}) {
  const layer = (name, parts) => [name, ...parts.flatMap((part, i) => [part, `residual${i + 1}`, `residual${i + 1}.layer_norm`].map((one) => `${name}.${one}`))];
  const stack = (name, ...parts) => [name, ...Array.from({ length: layers }, (_, i) => layer(`${name}.layers.${i}`, parts)).flat()];
  const places = ["", ...(alone ? [] : ["source_embedding"]), "target_embedding", ...(alone ? [] : stack("encoder", "self_attention", "feed_forward")),
    ...stack("decoder", "self_attention", ...(alone ? [] : ["cross_attention"]), "feed_forward")];
  return {
    task: "words", title: "words, English to German", options: { d_model: D, n_heads: HEADS, n_layers: 1, norm: "post", positions: "sinusoidal", n_kv_heads: null, ...options }, weights: "mean",
    search: { alpha: 0.6, penalty: "gnmt" }, parameters: 12345, places: places.map((place) => ({ place, kind: "Part", parent: place ? "" : null })),
    source_vocabulary: SOURCES, target_vocabulary: TARGETS, checkpoints: [10, 20, 30], examples: [TEXT, "small words"], limits: { tokens: 16, beam: 4 }, ...other,
  };
}

/** Return a translation; what is forced stays, and edits turn the last word. */
export function translationOf({ beam = 1, prefix = [], edits = [], text = TEXT } = {}) {
  const own = [4, 5, edits.length ? 7 : 6, 2], ids = [...prefix, ...own.slice(prefix.length)];
  const tokens = ids.map((id, i) => {
    const others = [id, 4 + ((id + 1) % 4), 3].map((one, k) => ({ id: one, text: TARGETS[one], probability: [0.9996, i === 2 ? 0.9996 : 0.0003, 0.1][k] / (k === 2 ? 1 : 1 + i) * (edits.length ? 0.7 + 0.1 * i : 1) })); // two are equal
    return { id, text: TARGETS[id], probability: others[0].probability, forced: i < prefix.length, alternatives: i < prefix.length && i === 0 ? others.slice(1) : others };
  });
  const node = (number, parent, step, id, log_probability, score, fate) => ({ id: number, parent, step, token: id, log_probability, score, fate, text: TARGETS[id] });
  const nodes = [node(0, null, 0, 1, 0, null, "kept"), node(1, 0, 1, 4, -0.25, null, "kept"), node(2, 0, 1, 5, -1.5, null, "kept"), node(3, 0, 1, 6, -4, null, "dropped: rank 3, and only 2 are kept"),
    node(4, 1, 2, 5, -0.5, null, "kept"), node(5, 2, 2, 2, -2, -1.875, "finished"), node(6, 4, 3, 2, -0.75, -0.625, "finished"), node(7, 4, 3, 6, -3, -2.5, "cut off: at the limit of 3 tokens"),
    node(8, 1, 2, 6, -5, null, "cannot win any more")];
  return { source: token([4, 5, 6, 2], SOURCES), tokens, text: tokens.slice(0, -1).map((one) => one.text).join(" "), finished: true, notes: text === TEXT ? [] : ["token 1 ('x') is unknown: the model reads <unk>"],
    tree: beam > 1 ? { nodes, winner: 6 } : null };
}

const base64 = (values) => Buffer.from(Float32Array.from(values).buffer).toString("base64");

/** Return a window of a tensor, as base64. */
export function windowOf(key, shape, { at = [], rows, columns }) {
  const [height, width] = [shape.length > 1 ? shape.at(-2) : 1, shape.length ? shape.at(-1) : 1], values = valuesOf(key, shape), { least, most } = statistics(key, shape);
  const [[top, bottom], [left, right]] = [rows ?? [0, height], columns ?? [0, width]], found = [];
  const first = shape.slice(0, -2).reduce((place, n, axis) => place * n + (at[axis] ?? 0), 0);
  for (let i = top; i < bottom; i += 1) for (let j = left; j < right; j += 1) found.push(values[(first * height + i) * width + j]);
  return { shape, rows: [top, bottom], columns: [left, right], stride: [1, 1], values: base64(found), least, most };
}

export const difference = { value: 0.123456789, gradient: 0.25, estimate: 0.25000001, relative_error: 4e-8, curve: [[0.1, 0.26, 0.04], [0.01, 0.2501, 4e-4], [0.001, 0.25000001, 4e-8], [1e-8, 0.25, 0]] };

/** Return weights, gradients and attention at each checkpoint. */
export function trainingOf(key = "", { steps = [10, 20, 30] } = {}, text = TEXT) {
  const norms = (factor) => Object.fromEntries(["encoder.layers.0.feed_forward.w1", "encoder.layers.0.feed_forward.b1", "decoder.layers.10.feed_forward.w1", "target_embedding.table"]
    .map((name, i) => [name, steps.map((step) => factor * (i + 1) * step)]));
  const places = [["encoder.layers.0.self_attention", 4, 4], ["decoder.layers.0.self_attention", 3, 3], ["decoder.layers.0.cross_attention", 3, 4]].filter(([place]) => place.startsWith(key));
  return { steps, loss: steps.map((step) => (15 + text.length) / step), translations: steps.map((step) => `${text === TEXT ? "zwei" : text} ${step}`), norms: norms(0.1), gradient_norms: norms(1e-4),
    attention: steps.filter((_, i) => i !== 1).flatMap((checkpoint) => places.map(([place, rows, columns]) => ({ checkpoint, key: place, shape: [HEADS, rows, columns],
      values: base64(valuesOf(`${checkpoint} ${place}.weights`, [HEADS, rows, columns])) }))) };
}

const code = (name, first, ...lines) => ({ file: `ops/${name}.py`, first, lines });
/** The lines of a few operations, with what the page does to lines: docstrings, comments, strings, long lines. */
export const sources = {
  multi_head_attention: { forward: null, backward: null }, // stands under the names of its passes
  "multi_head_attention.forward": code("multi_head_attention", 10, "    def forward(x, w_in):", '        """Return heads.', "", "        More of it.", '        """', "        q, k, v = project(x, 3)  # one product", "        concat = join(heads)", "        return concat @ w_out, None", ""),
  "multi_head_attention.backward": code("multi_head_attention", 20, "def backward(saved, d_output):", '    """Return gradients."""', "    d_concat = d_output @ w_out.T", "    d_q, d_k, d_v = split(d_concat)"),
  "scaled_dot_product_attention.forward": code("attention", 31, "def forward(q, k, v):", "    scores = q @ k / sqrt(64.0)", "    weights = softmax(scores)"),
  "scaled_dot_product_attention.backward": code("attention", 41, "def backward(saved, d_y):", "    d_weights = d_y @ v.T", "    d_scores = softmax_backward(d_weights)"),
  add: code("rules", 104, "def add(x, y):", "    return x + y, lambda d: (d, d)  # 'both'"),
  "layer_norm.forward": code("layer_norm", 80, "def forward(x, gain, bias, eps=1e-5):", '    """Return rows of mean 0."""', '    """Not a docstring."""', "    x_hat =     normalise(x)", "    y = x_hat * gain if gain is not None else x_hat"),
  "embedding.forward": code("embedding", 60, "def forward(ids, table):", "    ids = asarray(ids)", "    y = table[ids]"),
  "cross_entropy.forward": code("cross_entropy", 109, "def forward(logits, targets):", "    targets = asarray(targets)"),
};
const both = (name) => ({ forward: `<math><mi>${name}</mi></math>`, backward: `<math><mover><mi>x</mi><mo>¯</mo></mover><mi>${name}</mi></math>` });
export const formulas = { ...Object.fromEntries(["multi_head_attention", "scaled_dot_product_attention", "add", "residual", "scale_and_place", "multiply", "embedding", "cross_entropy", "linear"].map((name) => [name, both(name)])),
  layer_norm: { forward: "<math><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd><mtd><mi>c</mi></mtd></mtr></math><img src=\"x\">" } };
formulas.add = { forward: "<math><mi>z</mi><mo>=</mo><mi onclick=\"x\" href=\"y\">x</mi></math>", backward: both("add").backward };

/** Return what a saved file holds: one sentence, or two, with all its tensors and one difference. */
export function savedOf({ many = false } = {}) {
  const trace = traceOf(), model = modelOf(), tensors = {}, arrays = [], others = [];
  for (const { key, shape } of trace.steps.flatMap((step) => [step, ...step.forward, ...step.backward, { ...step, key: `d:${step.key}` }])) {
    tensors[key] = { shape, array: arrays.push({ type: "float32", values: base64(valuesOf(key, shape)) }) - 1 };
    others.push({ type: "float32", values: base64([...valuesOf(key, shape)].reverse()) });
  }
  const parameters = Object.fromEntries(trace.parameters.map(({ key, shape }) => [key, { shape, type: "float32", values: base64(valuesOf(key, shape)) }]));
  const step = "decoder.layers.0.feed_forward/feed_forward", differences = [{ key: step, index: [0, 1, 2], ...difference }];
  const sentence = { text: TEXT, translate: translationOf({ beam: 2 }), training: null, traces: [{ objective: { kind: "loss" }, answer: trace, tensors, arrays, differences }] };
  return { model: { ...model, checkpoints: [10] }, sources, formulas, parameters, sentences: [sentence, ...(many ? [{ ...sentence, text: "small words", translate: translationOf({ edits: [0] }), traces: [{ ...sentence.traces[0], answer: { ...trace, id: "other" }, arrays: others }] }] : [])] };
}
