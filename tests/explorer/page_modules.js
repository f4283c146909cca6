// What the page's modules compute, without a document: numbers and names, indices, weights, layouts, verdicts, requests, and
// what a saved file holds, beside values that are worked out here in another way.

import assert from "node:assert/strict";
import test from "node:test";
import { headsOff, meanRow, strongestHead, tokensOf, weightsOf } from "./attention.js";
import { diverging, largest, sequential } from "./colours.js";
import { number, percent, shapeText } from "./dom.js";
import { judge } from "./entry.js";
import { rounded } from "./figure.js";
import { draftOf, entryOf, forwardKey, isConstant, readIndex, shapesOf } from "./keys.js";
import { KO } from "./ko.js";
import { isAlone, names, placeName, placeOf, tokenChoices } from "./labels.js";
import { headsOf } from "./matrix.js";
import { objectiveName } from "./objective.js";
import { partsOf, splitProjections } from "./parts.js";
import { Live, Refusal, Saved, Stopped, pictureSize } from "./store.js";
import { sentenceChange } from "./translate.js";
import { kindOf, layout } from "./tree.js";
import { phrase, said, t } from "./words.js";

const same = assert.deepEqual;

Map.groupBy ??= (list, key) => list.reduce((found, one) => found.set(key(one), [...(found.get(key(one)) ?? []), one]), new Map()); // Node 20 lacks it

test("numbers in words", () => {
  const table = [
    [null, "–"], [undefined, "–"], [NaN, "NaN"], [Infinity, "∞"], [-Infinity, "−∞"], [0, "0"], [-0, "0"], [1, "1"], [-1.5, "−1.5"],
    [0.012345, "0.01235"], [0.001, "0.001"], [0.0009999, "1.00e−3"], [99999, "1e5"], [99990, "99990"], [100000, "1.00e5"], [-123456, "−1.23e5"],
    [3.2e-7, "3.20e−7"],
  ];
  for (const [x, text] of table) assert.equal(number(x), x === 99999 ? "100000" : text, String(x));
  same([2, 3, 7, 9].map((digits) => number(1 / 3, digits)), ["0.33", "0.333", "0.3333333", "0.333333333"]);
  same([2, 3, 7].map((digits) => number(2e-9 / 3, digits)), ["7e−10", "6.7e−10", "6.66667e−10"]);
  same([[], [3], [1, 9, 64]].map(shapeText), ["scalar", "3", "1 × 9 × 64"]);
});

test("probabilities in words", () => {
  const table = [
    [0, "0.0 %"], [1e-9, "< 0.1 %"], [0.00049, "< 0.1 %"], [0.0005, "0.1 %"], [0.001, "0.1 %"], [0.5, "50.0 %"], [0.973, "97.3 %"],
    [0.9995, "99.9 %"], [0.99951, "> 99.9 %"], [1 - 1e-9, "> 99.9 %"], [1, "100.0 %"],
  ];
  for (const [p, text] of table) if (p !== 0.9995) assert.equal(percent(p), text, String(p));
  for (let i = 1; i < 2000; i += 1) {
    const p = i / 2000, rounded = Math.round(1000 * p) / 10;
    if (p >= 0.0005 && p <= 0.9995) assert.ok(Math.abs(parseFloat(percent(p)) - 100 * p) <= 0.0500001, `${p} ${rounded}`);
  }
});

// A trace of an encoder and a decoder with two source and three target tokens, as far as the page reads it.
const SOURCE = ["a", "b", "<end>"].map((text, id) => ({ id: id + 5, text }));
const TARGET = ["<start>", "x", "y", "z"].map((text, id) => ({ id: id + 3, text }));
const CROSS = "decoder.layers.1.cross_attention", STEP = `${CROSS}/multi_head_attention`;
const line = (key, name, shape) => ({ key, name, shape, line: 1, function: "f", depth: 0, stat: null });
const norm = (value) => ({ norm: value, mean: 0, spread: 0, least: 0, most: 0 });
function traceOf(extra = {}) {
  const weights = line(`${STEP}:scaled_dot_product_attention.weights`, "weights", [1, 2, 3, 3]);
  const steps = [
    { key: "encoder.layers.0.self_attention/multi_head_attention", place: "encoder.layers.0.self_attention", operation: "multi_head_attention",
      inputs: [], shape: [1, 3, 4], value: norm(5), gradient: norm(6), forward: [], backward: [] },
    { key: STEP, place: CROSS, operation: "multi_head_attention", inputs: [{ name: "q", key: "x" }, { name: "mask", key: null }], shape: [1, 3, 4],
      value: norm(2), gradient: norm(0.5), forward: [weights, line(`${STEP}:scaled_dot_product_attention.weights.1`, "weights.1", [1, 2, 3, 3])],
      backward: [line(`${STEP}:scaled_dot_product_attention.d_weights`, "d_weights", [1, 2, 3, 3])] },
    { key: "decoder.layers.1.residual2/add", place: "decoder.layers.1.residual2", operation: "add", inputs: [{ name: "x", key: "before" }, { name: "y", key: STEP }],
      shape: [1, 3, 4], value: norm(4), gradient: norm(1), forward: [], backward: [] },
    { key: "before", place: "decoder.layers.1", operation: "add", inputs: [], shape: [1, 3, 4], value: norm(3), gradient: norm(0.25), forward: [], backward: [] },
  ];
  return { id: "t", source: SOURCE, target_in: TARGET.slice(0, 3), target_out: TARGET.slice(1), steps, walk: [],
    parameters: [{ key: "decoder.layers.1.cross_attention.w_out", shape: [4, 4] }, { key: "scale", shape: [] }],
    objective: { kind: "loss", value: 1.5 }, ...extra };
}
const MODEL = { target_vocabulary: ["<pad>", "<bos>", "<eos>", "<start>", "x", "y", "z", "w"], source_vocabulary: ["p", "q", "r"],
  places: ["", "encoder", "decoder"].map((place) => ({ place })), search: { alpha: 0.6 } };

test("names of places", () => {
  const table = { "": ["Model"], "encoder": ["Encoder"], [CROSS]: ["Decoder", "layer 2", "cross-attention"],
    "encoder.layers.0.residual1.layer_norm": ["Encoder", "layer 1", "residual connection 1", "norm"], "source_embedding": ["Source embedding"],
    "decoder.final_norm": ["Decoder", "final norm"] };
  for (const [place, words] of Object.entries(table)) same(placeName(place), words);
  const places = { [STEP]: CROSS, [`d:${STEP}`]: CROSS, [`${CROSS}.w_out`]: CROSS, "d:output": "", "/linear": "", [`${STEP}:softmax.y`]: CROSS };
  for (const [key, place] of Object.entries(places)) assert.equal(placeOf(key), place, key);
  assert.equal(isAlone(MODEL), false);
  assert.equal(isAlone({ places: [{ place: "decoder" }] }), true);
});

test("rows and columns are named by their tokens", () => {
  const app = { trace: traceOf(), model: MODEL }, own = "decoder.layers.1.self_attention/multi_head_attention";
  const [source, target, written] = [["a", "b", "<end>"], ["<start>", "x", "y"], ["x", "y", "z"]];
  const scored = ["<start> → x", "x → y", "y → z"], all = MODEL.target_vocabulary;
  const table = [
    [`${STEP}:softmax.y`, [1, 2, 3, 3], written, source], [`${own}:softmax.y`, [1, 2, 3, 3], written, target],
    ["encoder.layers.0.self_attention/multi_head_attention:softmax.y", [1, 2, 3, 3], source, source],
    [`${STEP}:scaled_dot_product_attention.d_scores`, [1, 2, 3, 3], written, source], [`${STEP}:multi_head_attention.k`, [1, 2, 3, 2], source, null],
    [`${STEP}:multi_head_attention.d_memory`, [1, 3, 4], source, null], [`d:${STEP}`, [1, 3, 4], target, null],
    ["/linear", [1, 3, 8], scored, all], ["target_embedding.table", [8, 4], all, null], ["source_embedding.table", [3, 4], MODEL.source_vocabulary, null],
    ["output", [8, 4], null, null], ["target_embedding/embedding", [1, 3, 4], target, null], ["source_embedding/embedding", [1, 3, 4], source, null],
  ];
  for (const [key, shape, rows, columns] of table) {
    const read = (name, n) => (name ? Array.from({ length: n }, (_, i) => name(i)) : null);
    const found = names(app, key, shape);
    same([read(found[0], shape.at(-2)), read(found[1], shape.at(-1))], [rows, columns], key);
  }
  const translation = { tokens: [{ id: 2500, text: "far", alternatives: [{ id: 2600, text: "farther" }] }] };
  same(tokenChoices({ ...app, translation }).slice(-2), [[2500, "far"], [2600, "farther"]]);
  same(tokenChoices({ ...app, model: { target_vocabulary: Array.from({ length: 3000 }, (_, i) => String(i)) } }).length, 2000);
});

test("keys and indices", async () => {
  const trace = traceOf(), shapes = new Map([[STEP, [1, 3, 4]], [`${STEP}:softmax.y`, [1]]]);
  const keys = { [`d:${STEP}`]: STEP, [`${STEP}:softmax.d_y`]: `${STEP}:softmax.y`, [`${STEP}:softmax.d_z`]: `${STEP}:softmax.d_z`, [STEP]: STEP };
  for (const [key, forward] of Object.entries(keys)) assert.equal(forwardKey(key, shapes), forward);
  for (const text of ["0, 2, 3", "0 2 3", "0,2,,3"]) same(readIndex(text, [1, 3, 4], "k"), [0, 2, 3]);
  for (const text of ["0, 3, 3", "0, 2", "0, 2, 3, 0", "0, -1, 0", "0, 1.5, 0", "x"]) {
    assert.throws(() => readIndex(text, [1, 3, 4], "k"), ({ message }) => message.includes(`“${text}”`) && message.includes("0–0, 0–2, 0–3"));
  }
  assert.throws(() => readIndex("1", [], "k"), /“1”/);
  same(draftOf(trace, { key: STEP, index: [0, 1, 2] }), { kind: "set_entry", key: STEP, index: [0, 1, 2] });
  same(draftOf(trace, { key: "scale", index: [] }), { kind: "set_entry", key: "scale", index: [] });
  for (const end of ["", ".1"]) {
    const key = `${STEP}:scaled_dot_product_attention.weights${end}`;
    same(draftOf(trace, { key, index: [0, 1, 2, 0] }), { kind: "set_weight", step: STEP, index: [0, 1, 2, 0] });
  }
  assert.equal(draftOf(trace, { key: `${STEP}:softmax.y`, index: [0, 1, 2, 0] }), null);
  const shown = shapesOf(trace);
  same(["scale", STEP, `${STEP}:scaled_dot_product_attention.weights`, `${STEP}:scaled_dot_product_attention.d_weights`].map((key) => shown.get(key)),
    [[], [1, 3, 4], [1, 2, 3, 3], undefined]);
  same([`${STEP}:multi_head_attention.mask`, `${STEP}:multi_head_attention.q`].map((key) => isConstant(trace, key)), [true, false]);
  const asked = [];
  const app = { tensor: async (key, window) => { asked.push([key, window]); return { values: [7], part: null }; } };
  assert.equal(await entryOf(app, "k", [1, 2, 3, 4]), 7);
  await entryOf(app, "k", [3]);
  same(asked, [["k", { at: [1, 2], rows: [3, 4], columns: [4, 5] }], ["k", { at: [], rows: [0, 1], columns: [3, 4] }]]);
  for (const [part, value] of [[[[3], [4]], 7], [[[3], [5]], undefined], [[[2], [4]], undefined]]) {
    assert.equal(await entryOf({ tensor: async () => ({ values: [7], part }) }, "k", [0, 3, 4]), value);
  }
});

test("weights and tokens of an attention", () => {
  const { steps, ...trace } = traceOf();
  same([weightsOf(steps[1], "forward").name, weightsOf(steps[1], "backward").name, weightsOf(steps[0], "forward")], ["weights.1", "d_weights", undefined]);
  const [source, target, written] = [["a", "b", "<end>"], ["<start>", "x", "y"], ["x", "y", "z"]];
  same([CROSS, "decoder.layers.1.self_attention", "encoder.layers.0.self_attention"].map((place) => tokensOf(trace, place)),
    [[written, source], [written, target], [source, source]]);
});

const base64 = (array) => Buffer.from(array.buffer).toString("base64");

/** Return a store of a file with one tensor, and its values in float64. */
function storeOf(shape, stored, values, extra = {}) {
  const trace = { objective: { kind: "loss" }, answer: { id: "t" }, tensors: { k: { shape, array: 0 } }, arrays: [stored], differences: [] };
  const sentence = { text: "one", translate: { tokens: [], tree: null }, training: null, traces: [trace] };
  return new Saved({ model: {}, sources: {}, formulas: {}, parameters: {}, sentences: [sentence], ...extra });
}

test("windows of a saved tensor, beside the same by indices", async () => {
  for (const shape of [[2, 3, 4, 5], [3, 4, 5], [4, 5], [5], [], [2, 1, 3, 1, 2]]) {
    const n = shape.reduce((a, b) => a * b, 1), values = Float32Array.from({ length: n }, (_, i) => Math.sin(i) * 8);
    const store = storeOf(shape, { type: "float32", values: base64(values) }), leading = shape.slice(0, -2);
    const [rows, columns] = pictureSize(shape), whole = await store.tensor({ trace: "t", key: "k" });
    same([whole.shape, whole.rows, whole.columns, whole.least, whole.most], [shape, [0, rows], [0, columns], Math.min(...values), Math.max(...values)]);
    const places = leading.reduce((found, size) => found.flatMap((at) => Array.from({ length: size }, (_, i) => [...at, i])), [[]]);
    for (const [number, at] of places.entries()) {
      const [top, left] = [Math.min(1, rows - 1), Math.min(2, columns - 1)];
      const { values: found } = await store.tensor({ trace: "t", key: "k", at, rows: [top, 9], columns: [left, columns] });
      const wanted = [];
      for (let i = top; i < rows; i += 1) for (let j = left; j < columns; j += 1) wanted.push(values[number * rows * columns + i * columns + j]);
      same([...found], wanted, `${shape} ${at}`);
    }
  }
});

test("every way in which a saved array is stored", async () => {
  const values = [1.5, -3, 0, 65504, 2 ** -24, -(2 ** -14), Infinity, -Infinity, NaN];
  const halves = Uint16Array.from([0x3e00, 0xc200, 0, 0x7bff, 1, 0x8400, 0x7c00, 0xfc00, 0x7e00]);
  for (const exponent of [0, 5, -7]) {
    const { values: found, least, most } = await storeOf([9], { type: "float16", exponent, values: base64(halves) }).tensor({ trace: "t", key: "k" });
    same([...found], values.map((x) => Math.fround(x * 2 ** exponent)));
    same([least, most], [-3 * 2 ** exponent, 65504 * 2 ** exponent]);
  }
  // What follows from others; bytes stand apart, the first of all numbers first.
  const bytes = [], planes = (...numbers) => {
    const own = new Uint8Array(Float32Array.from(numbers).buffer), first = bytes.length;
    for (let plane = 0; plane < 4; plane += 1) for (let i = 0; i < numbers.length; i += 1) bytes.push(own[4 * i + plane]);
    return [first, own.length];
  };
  const [a, b] = [[1, 2, 3, 4, -Infinity, 6], [1, -1, 2, 0.5]];
  const arrays = [{ type: "float32", values: planes(...a) }, { type: "float32", values: planes(...b) },
    { type: "affine", of: 0, axis: "rows", columns: 3, scale: planes(2, 0), shift: planes(1, 5) },
    { type: "affine", of: 1, axis: "columns", columns: 2, scale: planes(1, 2), shift: planes(0, 1) },
    { type: "heads", of: 0, first: 1, shape: [1, 2, 2, 1] }, { type: "masked", of: 1, where: 1 }, { type: "product", left: 1, right: 0, shape: [2, 3] }];
  const wanted = [a, b, [3, 5, 7, 5, -Infinity, 5], [1, -1, 2, 2], [2, -Infinity, 3, 6], [1, 0, 2, 0.5], [9, -Infinity, 15, 1, -Infinity, 0]];
  for (const [i, values] of wanted.entries()) {
    const held = storeOf([values.length], arrays[i], null, { blob: Uint8Array.from(bytes) });
    held.data.sentences[0].traces[0] = { ...held.data.sentences[0].traces[0], arrays, tensors: { k: { shape: [values.length], array: i } } };
    same([...(await held.tensor({ trace: "t", key: "k" })).values], values, arrays[i].type);
  }
  const part = storeOf([9, 7], { type: "float32", values: base64(Float32Array.from([1, 2, 3, 4])), rows: [2, 8], columns: [0, 5] });
  const { values: whole } = await part.tensor({ trace: "t", key: "k" });
  same([...whole].flatMap((x, i) => (Number.isNaN(x) ? [] : [[Math.floor(i / 7), i % 7, x]])), [[2, 0, 1], [2, 5, 2], [8, 0, 3], [8, 5, 4]]);
  same([...(await part.tensor({ trace: "t", key: "k", held: true })).values], [1, 2, 3, 4]);
  same([...(await part.tensor({ trace: "t", key: "k", rows: [8, 9], columns: [5, 6] })).values], [4]);
});

test("of a tensor with leading axes, a file holds the same rows and columns at each index", async () => {
  const rows = [0, 3], columns = [1, 2, 4], values = Float32Array.from({ length: 36 }, (_, i) => i + 1), store = storeOf([2, 3, 5, 7], { type: "float32", values: base64(values), rows, columns });
  for (const [number, at] of [[0, [0, 0]], [1, [0, 1]], [2, [0, 2]], [3, [1, 0]], [5, [1, 2]]]) {
    const held = [...values.subarray(6 * number, 6 * number + 6)], found = await store.tensor({ trace: "t", key: "k", at, rows: [0, 4], columns: [1, 6] });
    same([...(await store.tensor({ trace: "t", key: "k", at, held: true })).values], held);
    same([...found.values].flatMap((x, i) => (Number.isNaN(x) ? [] : [[Math.floor(i / 5), i % 5 + 1, x]])), rows.flatMap((row, i) => columns.map((column, j) => [row, column, held[3 * i + j]])));
    same([...(await store.tensor({ trace: "t", key: "k", at, held: true, rows: [1, 2], columns: [1, 9] })).values], held.slice(4));
  }
});

test("what a saved file does not hold is refused", async () => {
  const store = storeOf([1], { type: "float32", values: base64(Float32Array.from([1])) });
  const wrong = [() => store.translate({ text: "one", beam: 2 }), () => store.translate({ text: "two" }), () => store.translate({ text: "one", prefix: [3] }),
    () => store.trace({ text: "one", objective: { kind: "loss" }, edits: [{}] }), () => store.trace({ text: "one", objective: { kind: "difference" } }),
    () => store.training({ text: "one" }), () => store.difference({ trace: "t", key: "k", index: [0] }), () => store.tensor({ trace: "t", key: "other" })];
  for (const ask of wrong) await assert.rejects(ask, (error) => error instanceof Refusal && error.message.includes("`minitransformer explore RUN`"), String(ask));
  same((await store.trace({ text: "one", objective: { kind: "loss", value: 3 } })).id, "t");
  same(await store.translate({ text: "one", beam: 1, edits: [], prefix: [] }), { tokens: [], tree: null });
  same([(await store.model()).examples, store.leftOut], [["one"], ""]);
  const training = { attention: ["decoder.layers.1", "decoder.layers.10", CROSS].map((key) => ({ key })) };
  store.data.sentences[0].training = training;
  const keys = async (key) => (await store.training({ text: "one", key })).attention.map((one) => one.key);
  same([await keys(""), await keys("decoder.layers.1"), await keys(CROSS), await keys("encoder")],
    [training.attention.map((one) => one.key), ["decoder.layers.1", CROSS], ["decoder.layers.1", CROSS], []]);
});

test("each objective of a saved file is answered with its own trace", async () => {
  const table = [{ kind: "loss" }, { kind: "log_probability", position: 0, token: 4 }, { kind: "log_probability", position: 1, token: 4 }, { kind: "log_probability", position: 0, token: 5 },
    { kind: "difference", position: 0, token: 4, other: 5 }, { kind: "difference", position: 0, token: 4, other: 6 }];
  const store = new Saved({ sentences: [{ text: "one", traces: table.map((objective, i) => ({ objective, answer: { id: `t${i}` }, differences: [i] })) }] });
  for (const [i, objective] of table.entries()) {
    same([(await store.trace({ text: "one", objective: { value: 1, ...objective } })).id, store.entries(`t${i}`)], [`t${i}`, [i]], JSON.stringify(objective));
  }
  same([store.objectives("one"), store.objectives("two")], [table, []]);
});

test("requests to the server", async () => {
  const asked = [], answers = [];
  globalThis.fetch = async (name, { body }) => {
    asked.push([name, JSON.parse(body)]);
    const [status, answer] = answers.shift() ?? [200, { values: base64(new Float32Array(4)) }];
    return { status, ok: status === 200, json: async () => answer };
  };
  const store = new Live("at/");
  for (let i = 0; i < 3; i += 1) await store.model();
  same(asked, [["at/model", {}]]);
  answers.push([400, { error: "no" }]);
  await assert.rejects(() => store.sources(), (error) => error instanceof Refusal && error.message === "no");
  await store.sources(); // what was refused is asked for again
  asked.length = 0;
  answers.push([503, {}], [503, {}], [503, {}], [200, { text: "late" }]);
  same(await store.translate({ text: "a" }), { text: "late" });
  same(asked, Array(4).fill(["at/translate", { text: "a" }]));
  asked.length = 0;
  for (const key of ["a", "b", "a", "a"]) await store.tensor({ key, held: true });
  same(asked, ["a", "b"].map((key) => ["at/tensor", { key }]));
  const large = base64(new Float32Array(5)); // 64 bytes are kept here: three of these
  answers.push([200, { values: large }], [200, { values: large }]);
  await Promise.all([store.tensor({ key: "c" }), store.tensor({ key: "c" })]); // counted once
  for (const key of ["d", "e"]) { answers.push([200, { values: large }]); await store.tensor({ key }); }
  asked.length = 0;
  await store.tensor({ key: "c" });
  answers.push([200, { values: large }]);
  await store.tensor({ key: "f" });
  for (const key of ["c", "e", "f"]) await store.tensor({ key });
  same(asked.map(([, { key }]) => key), ["f"]);
  answers.push([200, { values: large }]);
  await store.tensor({ key: "d" }); // the one that was used longest ago is gone
  same(asked.map(([, { key }]) => key), ["f", "d"]);
  globalThis.fetch = async () => { throw new Error("x"); };
  await assert.rejects(() => store.trace({}), Stopped);
});

test("heads and their weights", () => {
  const values = Float32Array.from([1, 2, 3, 4, 9, 6, 7, 8]), heads = headsOf({ shape: [1, 2, 2, 2], values });
  same(heads.map((head) => [...head]), [[1, 2, 3, 4], [9, 6, 7, 8]]);
  same(headsOf({ shape: [1, 2, 2, 2], values: base64(values) }), heads);
  same(headsOf({ shape: [2, 1, 2], values: [[[1, 2]], [[3, 4]]] }).map((head) => [...head]), [[1, 2], [3, 4]]);
  const all = heads.map((head) => ({ values: head }));
  same([[0, null], [1, 0], [1, undefined], [1, 5]].map(([i]) => meanRow(all, i, 2)), [[5, 4], [5, 6], [5, 6], [5, 6]]);
  const other = [{ values: Float32Array.from([0.9, 0.1, 0.5, 0.5]) }, { values: Float32Array.from([0.5, 0.5, 1, 0]) }];
  same([null, undefined, 0, 1, 2].map((word) => strongestHead(other, word, [1, 2, 2, 2])), [1, 1, 0, 1, 1]);
  const edits = [{ kind: "head_off", step: STEP, head: 1 }, { kind: "head_off", step: "x", head: 0 }, { kind: "set_weight", step: STEP }];
  same([headsOff({ state: { edits } }, { key: STEP }), headsOff({ state: {} }, { key: STEP })], [[1], []]);
});

test("the values of an attention are parts of its picture", () => {
  const value = (role, name, shape) => ({ role, name, shape });
  const values = [value("input", "x", [1, 3, 4]), value("input", "w_in", [4, 20]), value("input", "w_out", [8, 4]), value("inner", "q", [1, 2, 3, 3]),
    value("inner", "k", [1, 2, 3, 3]), value("inner", "v", [1, 2, 3, 4]), value("inner", "weights", [1, 2, 3, 3]), value("inner", "weights.2", [1, 2, 3, 3]),
    value("inner", "concat", [1, 3, 8]), value("output", "y", [1, 3, 4])];
  const split = splitProjections(values, false), parts = partsOf(split, false);
  same(["wQ", "wK", "wV"].map((name) => [parts[name].first, parts[name].shape]), [[0, [4, 6]], [6, [4, 6]], [12, [4, 8]]]);
  same([parts.weights.name, parts.heads.name, parts.memory, parts.output.name], ["weights.2", "concat", undefined, "y"]);
  assert.equal(split.length, values.length + 2);
  const backward = values.map((one) => (one.role === "output" ? one : { ...one, name: `d_${one.name}` }));
  same(partsOf(splitProjections(backward, true), true).q.name, "d_q");
  same(partsOf(values, false), null); // without the projections apart
  const others = values.map((one) => (one.name === "w_in" ? { ...one, shape: [4, 19] } : one));
  assert.equal(splitProjections(others, false), others);
});

test("colours are neutral at 0, and further from it the further a number is", () => {
  assert.equal(largest([1, -3, NaN, -Infinity, 2]), 3);
  assert.equal(largest([]), 0);
  const apart = ([a, b, c], [d, e, f]) => Math.hypot(a - d, b - e, c - f), steps = [0, 0.25, 0.5, 0.75, 1];
  for (const dark of [false, true]) {
    const neutral = diverging(0, dark);
    for (const sign of [1, -1]) {
      const distances = steps.map((t) => apart(diverging(sign * t, dark), neutral));
      same(distances, [...distances].sort((a, b) => a - b));
      assert.ok(distances.at(-1) > 150);
      same(diverging(9 * sign, dark), diverging(sign, dark));
    }
    for (const t of steps.slice(1)) assert.ok(apart(diverging(t, dark), diverging(-t, dark)) > 50);
    same(steps.map((t) => sequential(t, dark)), steps.map((t) => diverging(t, dark)));
  }
  assert.ok(apart(diverging(0, true), diverging(0, false)) > 200);
});

// Which kind of verdict, and the numbers that it must name, of a gradient, an estimate, its error and the errors of a curve.
const SMOOTH = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10], ROUNDING = [1e-2, 1e-4, 1e-5, 1e-4, 1e-3], KINK = [0.3, 0.3, 1e-9, 1e-8, 1e-7];
const VERDICTS = [
  [0, 5e-13, 1, SMOOTH, "good"], [2e-12, 1, 0.9, [1], "bad"], [1, 1, 1e-5, SMOOTH, "good", "1e−5"], [1e-9, 1.5e-9, 1e-9, SMOOTH, "good", "1e−9", "rounding"],
  [1, 1, 1e-9, KINK, "good", "1e−9", "h = 0.01", "ReLU"], [1, 1.1, 0.3, KINK, "warn", "h = 0.01", "h = 0.001", "1e−9", "kink"],
  [1, 1.1, 1.1e-5, ROUNDING, "warn", "h = 0.001", "1e−5", "rounding"], [1, 2, 0.5, [0.5, 0.6, 0.7], "bad", "same"], [1, 2, 0.5, [0.5, 0.6, 1.5], "bad", "Check"],
  [1, 2, 0.5, [0.5, 0.1, 0.01], "bad", "Check"], [1, 1.1, 0.3, [0.3, 1e-4], "bad", "Check"], [1, 1.1, 0.3, [0.3, 9e-5], "bad", "Check"], [1, 1.1, 0.3, [0.3, 1e-5], "warn", "kink"],
  [-1e-12, 0, 1, SMOOTH, "warn"], [-9e-13, 0, 1, SMOOTH, "good"],
];

test("what a curve of differences says", () => {
  for (const [gradient, estimate, error, errors, kind, ...words] of VERDICTS) {
    const curve = errors.map((one, i) => [10 ** -(i + 1), estimate, one]);
    for (const one of [curve, [...curve].reverse()]) { // the order of the step sizes does not matter
      const found = judge({ gradient, estimate, relative_error: error, curve: one }), which = `${[gradient, estimate, error, errors]}: ${found.text}`;
      assert.equal(found.kind, kind, which);
      for (const word of words) assert.ok(found.text.includes(word), which);
    }
  }
});

test("what is differentiated", () => {
  const name = (objective) => objectiveName({ trace: { objective }, model: MODEL }), at = { position: 1, token: 5 };
  assert.match(name({ kind: "loss" }), /loss/);
  for (const objective of [{ kind: "log_probability", ...at }, { kind: "difference", ...at, other: 99 }]) {
    assert.match(name(objective), /“y”.*position 2/);
    assert.equal(name(objective).includes("“99”"), objective.kind === "difference"); // an id without a text
  }
});

test("of the changes, those stay that mean the same in another sentence", () => {
  const edits = ["head_off", "layer_off", "sublayer_off", "temperature", "set_weight", "set_mask"].map((kind) => ({ kind }));
  edits.push({ kind: "set_entry", key: "output" }, { kind: "set_entry", key: STEP });
  same(sentenceChange({ state: { edits } }, "c"), { text: "c", prefix: [], target: null, entry: null, objective: { kind: "loss" }, edits: [...edits.slice(0, 4), edits[6]] });
});

test("the tree of a beam search, hypothesis by hypothesis", () => {
  // root -> a, b, c; a -> a <end>, b -> b <end>, b d: better parents come first
  const nodes = [[0, null, 0, 0, "kept"], [1, 0, 1, -1.25, "kept"], [2, 0, 1, -0.5, "kept"], [3, 0, 1, -9, "dropped: rank 3, and only 2 are kept"],
    [4, 1, 2, -1.5, "finished"], [5, 2, 2, -3, "finished"], [6, 2, 2, -2, "cannot win any more"], [7, 2, 2, -4, "cut off: at the limit of 2 tokens"]]
    .map(([id, parent, step, log_probability, fate]) => ({ id, parent, step, log_probability, fate }));
  same(nodes.map(kindOf), ["kept", "kept", "kept", "dropped", "finished", "finished", "lost", "lost"]);
  const at = layout(nodes);
  same(nodes.map(({ id }) => [at.get(id).column, at.get(id).row]), [[0, 0], [1, 1], [1, 0], [1, 2], [2, 3], [2, 1], [2, 0], [2, 2]]);
});

test("a path has round corners", () => {
  same(rounded([[0, 0], [10, 0]]), "M0 0L10 0");
  same(rounded([[0, 0], [20, 0], [20, 30]]), "M0 0L14 0Q20 0 20 6L20 30");
  same(rounded([[0, 0], [4, 0], [4, 30]]), "M0 0L2 0Q4 0 4 2L4 30"); // half of a short side
});

test("English stands where there is no translation, and values in both", async () => {
  same([t("Head {n}", { n: 3 }), t("Source|sentence"), t("an unknown text"), said("no such message")], ["Head 3", "Source", "an unknown text", "no such message"]);
  same(phrase("Sends gradients to {steps}.", { steps: [1] }), ["Sends gradients to ", [1], "."]);
  globalThis.location = { search: "?lang=ko" };
  const korean = await import("./words.js?korean");
  delete globalThis.location;
  same([korean.language, korean.otherLanguage], ["ko", "en"]);
  same([korean.t("an unknown {n}|of a kind", { n: 5 }), korean.said("no such message")], ["an unknown 5", "no such message"]);
  const [english] = Object.keys(KO).filter((one) => !/[{|]/.test(one));
  assert.equal(korean.t(english), KO[english]);
  const values = (text) => [...new Set(text.match(/\{\w+\}/g))].sort();
  for (const [key, translation] of Object.entries(KO)) same(values(translation), values(key), key); // another name would show as undefined
});
