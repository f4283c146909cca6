// What the page computes and writes, beside values that are worked out here in another way.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { element, texts } from "./page_document.js";
import { compare } from "./page_visit.js";
import { chart } from "./chart.js";
import { diverging, largest } from "./colours.js";
import { number, percent, shapeText } from "./dom.js";
import { judge, view as entryView } from "./entry.js";
import { draftOf, entryOf, forwardKey, isConstant, readIndex } from "./keys.js";
import { isAlone, names, placeName, placeOf, tokenChoices } from "./labels.js";
import { objectiveName, view as objectiveView } from "./objective.js";
import { Live, Saved, pictureSize } from "./store.js";
import { residualStream } from "./stream.js";
import { tokensOf, view as attentionView, weightsOf } from "./attention.js";
import { view as editView } from "./edit.js";
import { view as figureView } from "./figure.js";
import { view as blockView } from "./block.js";
import { Heatmap } from "./heatmap.js";
import { view as trainingView } from "./training.js";
import { sentenceChange, view as translateView } from "./translate.js";
import { drawTree, kindOf, layout } from "./tree.js";
import { TOUR } from "./words.js";
import { KO } from "./ko.js";
import { phrase, t } from "./words.js";

const same = assert.deepEqual;

test("every text of the page is translated, with the same values", () => {
  const literal = String.raw`"((?:[^"\\]|\\.)*)"`, forms = [`^${literal}`, String.raw`^[^"?]*\? ${literal} : ${literal}`].map((form) => new RegExp(form));
  const used = new Set();
  for (const name of readdirSync(".").filter((one) => one.endsWith(".js") && !one.startsWith("page_") && one !== "ko.js")) {
    const source = readFileSync(name, "utf8"), bare = source.match(/\}, "[^"]*[A-Za-z]{2}[^"]*"|(?:"aria-label"|title): ["`][^"`$]*[A-Za-z]{2}.*/g) ?? [];
    same(bare.filter((text) => !/"(alpha |beam |minitransformer train .*)"/.test(text)), [], `${name}: texts outside t()`);
    for (const [, rest] of source.matchAll(/\b(?:t|phrase)\((?!english)(?=(.*))/g)) {
      const found = forms.map((form) => form.exec(rest)).find(Boolean);
      assert.ok(found, `${name}: t(${rest.slice(0, 70)}: expected a text, or two and a condition without texts`);
      for (const text of found.slice(1)) used.add(JSON.parse(`"${text}"`));
    }
  }
  const [, body] = readFileSync("index.html", "utf8").split("<body>"), plain = ["minitransformer", "◐", "한국어"];
  for (const [, label, text] of body.matchAll(/aria-label="([^"]*)"|>([^<>\s][^<>\n]*)</g)) if (!plain.includes(text)) used.add(label ?? text);
  same([...used].filter((english) => !(english in KO)), []);
  same(Object.keys(KO).filter((english) => !used.has(english)), []);
  const values = (text) => [...new Set(text.match(/\{\w+\}/g))].sort(), code = (text) => text.split("`").length;
  for (const [english, korean] of Object.entries(KO)) {
    same([values(korean), code(korean)], [values(english), code(english)], english);
    assert.ok(korean.trim(), english);
  }
  same([t("Head {n}", { n: 3 }), t("Source|sentence"), t("norm"), phrase("Sends gradients to {steps}.", { steps: [1] })], ["Head 3", "Source", "norm", ["Sends gradients to ", [1], "."]]);
});

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
    assert.throws(() => readIndex(text, [1, 3, 4], "k"), { message: `k: found the index “${text}”, expected 3 whole numbers in the ranges 0–0, 0–2, 0–3.` });
  }
  assert.throws(() => readIndex("1", [], "k"), { message: "k: found the index “1”, expected 0 whole numbers." });
  same(draftOf(trace, { key: STEP, index: [0, 1, 2] }), { kind: "set_entry", key: STEP, index: [0, 1, 2] });
  same(draftOf(trace, { key: "scale", index: [] }), { kind: "set_entry", key: "scale", index: [] });
  for (const end of ["", ".1"]) {
    const key = `${STEP}:scaled_dot_product_attention.weights${end}`;
    same(draftOf(trace, { key, index: [0, 1, 2, 0] }), { kind: "set_weight", step: STEP, index: [0, 1, 2, 0] });
  }
  assert.equal(draftOf(trace, { key: `${STEP}:softmax.y`, index: [0, 1, 2, 0] }), null);
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
  for (const ask of wrong) await assert.rejects(ask, { message: "This file holds one text. Run `minitransformer explore RUN` to change it." }, String(ask));
  same([1, 2, 3].map((n) => new Saved({ sentences: Array(n).fill({}) }).refusal), ["This file holds one text. Run `minitransformer explore RUN` to change it.",
    ...Array(2).fill("This file holds a few texts. Run `minitransformer explore RUN` to write others.")]);
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

// root -> a, b, c; a -> a <end> (finished), b -> b <end> (the best), b d (kept)
const NODES = [
  [0, null, 0, "<start>", 0, null, "kept"], [1, 0, 1, "a", -0.5, null, "kept"], [2, 0, 1, "b", -1.25, null, "kept"],
  [3, 0, 1, "c", -9, null, "dropped: 2 better"], [4, 1, 2, "<end>", -3, -2.5, "finished"], [5, 2, 2, "<end>", -1.5, -1.125, "finished"],
  [6, 2, 2, "d", -4, null, "no continuation can win"],
].map(([id, parent, step, text, log_probability, score, fate]) => ({ id, parent, step, text, token: id + 10, log_probability, score, fate }));

test("the tree of a beam search, hypothesis by hypothesis", () => {
  same(NODES.map(kindOf), ["kept", "kept", "kept", "dropped", "finished", "finished", "lost"]);
  same([...layout(NODES)].sort(([a], [b]) => a - b).map(([, { column, row }]) => [column, row]), [[0, 0], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]]);
  const root = element(), forced = [];
  drawTree(root, { nodes: NODES, winner: 5 }, (ids) => forced.push(ids));
  const about = () => root.querySelector(".tree-about").textContent.replace("Force these tokens and continue", "");
  const shapes = new Map(root.querySelectorAll("[data-id]").map((shape) => [Number(shape.dataset.id), shape]));
  assert.equal(shapes.size, 7);
  const said = { 5: "b <end> – log-probability −1.5, score −1.125; finished with the best score: the result of the search. ",
    4: "a <end> – log-probability −3, score −2.5; finished. ", 1: "a – log-probability −0.5; kept. ", 3: "c – log-probability −9; dropped: 2 better. ",
    6: "b d – log-probability −4; no continuation can win. ", 0: "The start of every hypothesis." };
  assert.equal(about(), said[5]);
  for (const [id, text] of Object.entries(said)) {
    shapes.get(Number(id)).listeners.click();
    assert.equal(about(), text);
    root.querySelector(".tree-about").querySelector("button")?.listeners.click();
    same([...shapes].filter(([, shape]) => shape.attributes["aria-selected"] === "true").map(([one]) => String(one)), [id]);
  }
  same(forced, [[11], [13], [11], [12], [12, 16]]);
  same([...shapes].map(([id, shape]) => [id, shape.attributes["aria-label"], shape.textContent]), [
    [0, "<start>, log-probability 0, kept", "<start>"], [1, "a, log-probability −0.5, kept", "a−0.5"], [2, "b, log-probability −1.25, kept", "b−1.25"],
    [3, "c, log-probability −9, dropped: 2 better", "c−9"], [4, "<end>, log-probability −3, finished", "<end>−3score −2.5"],
    [5, "<end>, log-probability −1.5, finished with the best score", "<end>−1.5score −1.13"], [6, "d, log-probability −4, no continuation can win", "d−4"]]);
  same([...shapes].filter(([, shape]) => shape.classList.contains("best")).map(([id]) => id), [2, 5]);
  const numbersOf = (text) => text.match(/-?[\d.]+/g).map(Number);
  const sideOf = (id, right) => {  // the middle of the left or right side of its box
    const [x, y] = numbersOf(shapes.get(id).attributes.transform), { width, height } = shapes.get(id).querySelector("rect").attributes;
    return [x + right * Number(width), y + Number(height) / 2];
  };
  same(root.querySelectorAll(".edge").map((edge) => numbersOf(edge.attributes.d)).map((at) => [at.slice(0, 2), at.slice(-2)]),
    NODES.slice(1).map(({ id, parent }) => [sideOf(parent, 1), sideOf(id, 0)]));
  const details = root.querySelectorAll("details").at(-1);
  Object.assign(details, { open: true }).listeners.toggle();
  same(details.querySelectorAll("tr").slice(1).map((row) => texts(row, "td")), [
    ["1", "a", "−0.5", "–", "kept"], ["1", "b", "−1.25", "–", "kept"], ["1", "c", "−9", "–", "dropped: 2 better"],
    ["2", "a <end>", "−3", "−2.5", "finished"], ["2", "b <end>", "−1.5", "−1.125", "finished, best score"], ["2", "b d", "−4", "–", "no continuation can win"]]);
  assert.equal(texts(details, "summary")[0], "All 6 hypotheses as a table");
  const box = root.querySelector("input");
  box.checked = false;
  box.listeners.change();
  same(root.querySelectorAll("[data-id]").map((shape) => Number(shape.dataset.id)), [0, 1, 2, 4, 5, 6]);
});

test("the keyboard in the tree", () => {
  const root = element();
  drawTree(root, { nodes: NODES, winner: 5 });
  const chosen = () => root.querySelectorAll("[data-id]").find((shape) => shape.attributes["aria-selected"] === "true");
  const press = (key) => {
    const target = { closest: () => chosen() };
    root.querySelector(".beam-tree").listeners.keydown({ key, target, preventDefault: () => {} });
    return Number(chosen().dataset.id);
  };
  same(["ArrowLeft", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "ArrowRight", "ArrowRight", "ArrowDown", "End"].map(press),
    [2, 1, 1, 2, 3, 0, 2, 0, 2, 5, 6, 5]);
});

test("charts", () => {
  const draw = (options) => chart({ label: "l", xName: "x", yName: "y", ...options });
  const points = [[0.001, 1], [0.1, 100], [10, 1000]];
  const found = draw({ lines: [{ name: "a", points }], logX: true, logY: true, dots: true, marker: 0.1 });
  const at = (x, from, to) => (from + (to - from) * x).toFixed(1);
  assert.equal(found.querySelector("polyline").attributes.points, `52.0,176.0 ${at(0.5, 52, 348)},${at(2 / 3, 176, 10)} 348.0,10.0`);
  same(texts(found, "circle"), ["x 0.001: y 1", "x 0.1: y 100", "x 10: y 1000"]);
  same(texts(found, "text"), ["1", "10", "100", "10³", "10⁻³", "10⁻²", "0.1", "1", "10", "x", "y"]);
  assert.equal(found.querySelector(".marker").attributes.x1, "200");
  const plain = draw({ lines: [{ name: "a", points: [[0, -1], [5, 3], [10, NaN]] }, { name: "b", points: [[10, 1]] }] });
  same(plain.querySelectorAll("polyline").map((one) => one.attributes.points), ["52.0,176.0 200.0,10.0", "348.0,93.0"]);
  same(texts(plain, "text"), ["−1", "0", "1", "2", "3", "0", "2.5", "5", "7.5", "10", "x", "y"]);
  same(draw({ lines: [{ points: [[1, 0]] }], logY: true }).textContent, "There is nothing to draw: every value is 0 or missing.");
});

test("colours", () => {
  assert.equal(largest([1, -3, NaN, -Infinity, 2]), 3);
  const stops = { "-2": [8, 48, 107], "-1": [8, 48, 107], "-0.5": [66, 146, 208], 0: [247, 246, 243], 0.25: [240, 191, 145], 0.5: [233, 136, 46], 1: [127, 46, 4], 9: [127, 46, 4] };
  for (const [t, colour] of Object.entries(stops)) same(diverging(Number(t), false), colour, t);
  same([-1, 0, 1].map((t) => diverging(t, true)), [[150, 208, 255], [34, 37, 45], [255, 205, 138]]);
});

test("what a curve of differences says", () => {
  const curve = (errors, estimate = 1) => errors.map((error, i) => [10 ** -(i + 1), estimate, error]);
  const smooth = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10], rounding = [1e-2, 1e-4, 1e-5, 1e-4, 1e-3], kink = [0.3, 0.3, 1e-9, 1e-8, 1e-7];
  const table = [
    [0, 5e-13, 1, smooth, "good", "Both are 0 up to rounding. A relative error says nothing here."],
    [2e-12, 1, 0.9, [1], "bad", "The error is the same at every step size. The entry lies exactly on a kink, or its gradient is wrong."],
    [1, 1, 1e-5, smooth, "good", "They agree: relative error 1e−5."],
    [1e-9, 1.5e-9, 1e-9, smooth, "good", "They agree: relative error 1e−9. The gradient is so small that rounding limits the comparison; the error is relative to the rounding error."],
    [1, 1, 1e-9, kink, "good", "They agree: relative error 1e−9. At h = 0.01 the error jumps, as where a ReLU switches between x − h and x + h."],
    [1, 1.1, 0.3, kink, "warn", "A kink lies near: at h = 0.01 a ReLU switches between x − h and x + h, so the difference is no derivative. At h = 0.001 the two agree: relative error 1e−9."],
    [1, 1.1, 1.1e-5, rounding, "warn", "The step size matters, and rounding hides the best one. At h = 0.001 the two agree: relative error 1e−5."],
    [1, 2, 0.5, [0.5, 0.6, 0.7], "bad", "The error is the same at every step size. The entry lies exactly on a kink, or its gradient is wrong."],
    [1, 2, 0.5, [0.5, 0.1, 0.01], "bad", "Neither a kink nor rounding explains this error. Check the backward pass."],
  ];
  for (const [gradient, estimate, error, errors, kind, text] of table) {
    same(judge({ gradient, estimate, relative_error: error, curve: curve(errors) }), { kind, text }, text);
  }
});

test("every verdict about a gradient and a curve", () => {
  const curves = [[1], [0.3, 0.3, 1e-9, 1e-8], [0.3, 0.3, 2e-5, 3e-5], [0.3, 0.3, 1e-5, 1e-6], [0.3, 1e-5], [0.3, 9e-5], [0.3, 1e-4], [1e-2, 1e-5, 1e-4], [1e-2, 1.1e-5, 1e-4], [0.5, 0.6, 1.4], [0.5, 0.6, 1.5], [-0.5, 0.01, -0.6], [1e-4, -1e-9, 1e-13], [0, 0]];
  const pairs = [[1, 1, 1e-5], [1, 1, 1.1e-5], [1, 2, 0.5], [-1, 1, 2], [0, 9e-13, 1], [-1e-12, 0, 1], [1e-9, 1.00001e-9, 1e-6], [1e-9, -1e-9, 1e-6]], said = [];
  for (const [gradient, estimate, error] of pairs) {
    for (const errors of curves) {
      for (const order of [1, -1]) {
        const curve = errors.map((one, i) => [10 ** -(i + 1), estimate, one]).sort(([a], [b]) => order * (a - b)), { kind, text } = judge({ gradient, estimate, relative_error: error, curve });
        said.push(`${[gradient, estimate, error]}; ${errors}: ${kind}, ${text}`);
      }
    }
  }
  same(said.filter((_, i) => i % 2), said.filter((_, i) => i % 2 === 0)); // the order of the step sizes does not matter
  compare(said.filter((_, i) => i % 2), `${process.env.EXPLORER_TESTS}/verdicts.txt`);
});

function appOf(state, store, extra = {}) {
  const changes = [];
  return { state, store, trace: traceOf(), model: MODEL, changes, set: (change) => { changes.push(change); }, say: () => {}, guard: (answer) => answer,
    step: (key) => traceOf().steps.find((one) => one.key === key), stepsAt: () => traceOf().steps, ...extra };
}

test("one entry beside its central difference", async () => {
  const difference = { value: 0.123456789, gradient: 1 / 3, estimate: 0.33333334, relative_error: 1e-7, curve: [[0.1, 0.3, 0], [1e-3, 0.3334, 1.25e-4], [1e-4, 0.33333334, 1e-7]] };
  const app = appOf({ entry: { key: `d:${STEP}`, index: [0, 1, 2] } }, { live: true, entries: () => null, difference: async () => difference });
  const root = element();
  await entryView(app, root)(new Set(["trace"]));
  same(texts(root, "dd"), ["0.1234568", "0.333333333", "0.33333334", "1.0e−7"]);
  same(texts(root, ".entry-name"), [`${STEP}[0, 1, 2]`]);
  same(texts(root, ".verdict"), ["They agree: relative error 1e−7."]);
  same(root.querySelectorAll("tr").slice(1).map((row) => texts(row, "td")), [["0.1", "0.3", "0"], ["0.001", "0.3334", "1.3e−4"], ["1e−4", "0.33333334", "1.0e−7"]]);
  assert.equal(root.querySelector("figcaption").textContent, "On the left rounding, which falls as 1/h; on the right the truncation of the difference, which rises with h². An error of 0 is drawn at 1e−17.");
  root.querySelector(".entry-answer").querySelectorAll("button").at(-1).listeners.click();
  same([app.changes[0].view, app.changes[0].draft.key, app.changes[0].draft.index], ["edit", STEP, [0, 1, 2]]);
  const { backward } = app.trace.steps.find((step) => step.key === STEP), other = `${STEP}:multi_head_attention.d_other`;
  app.state.entry = { key: other, index: [0] };
  await entryView(app, root)(new Set(["trace"]));
  assert.equal(root.querySelector(".entry-answer").textContent, `Found no tensor ${other}; choose one from the list.`);
  backward.push({ ...backward[0], key: other, name: "d_other" });
  await entryView(app, root)(new Set(["trace"]));
  assert.match(root.querySelector(".entry-answer").textContent, /is a value of the backward pass/);
  backward.pop();
});

test("what is differentiated", () => {
  const translation = { tokens: TARGET.slice(1).map((one) => ({ ...one, alternatives: [one, { id: 7, text: "w" }] })) };
  const table = [
    [{ kind: "loss", value: 1.5 }, "loss of this text, in nats per token", "= 1.5 nats per token"],
    [{ kind: "log_probability", position: 1, token: 5, value: -2 }, "log-probability of “y” at position 2, in nats", "= −2 nats"],
    [{ kind: "difference", position: 0, token: 4, other: 9, value: 3 }, "log-probability of “x” minus that of “9” at position 1, in nats", "= 3 nats"],
  ];
  for (const [objective, text, said] of table) {
    const app = appOf({ objective, text: "one" }, { objectives: () => null }, { trace: traceOf({ objective }), translation });
    assert.equal(objectiveName(app), text);
    const root = element(), draw = objectiveView(app, root);
    draw();
    assert.equal(root.querySelector("output").textContent, said);
    app.trace.objective = { ...objective, kind: "other" };
    draw();
    assert.equal(root.querySelector("output").textContent, "");
    const [kind, position, token, other] = root.querySelectorAll("select"), chosen = (one) => one.children.filter((option) => "selected" in option.attributes).map(({ textContent }) => textContent);
    same(chosen(position), [`${(objective.position ?? 0) + 1}: ${["x", "y", "z"][objective.position ?? 0]}`]);
    same(chosen(token), [objective.token === 5 ? "y" : "x"]);
    same(chosen(other), objective.other ? [] : ["w"]);
    same([kind.value, kind.attributes.title ?? "", token.disabled], [objective.kind, "", false]);
    Object.assign(kind, { value: "difference" }), Object.assign(position, { value: "2" }), Object.assign(token, { value: "4" });
    position.listeners.change({ target: position });
    same(app.changes, [{ objective: { kind: "difference", position: 2, token: 6, other: 7 } }]);
  }
});

test("the residual stream", () => {
  for (const [side, heads, numbers] of [["forward", ["‖x‖", "‖sub-layer(x)‖", "‖sum‖"], ["3", "2", "4"]], ["backward", ["‖d_x‖", "‖d_sub-layer(x)‖", "‖d_sum‖"], ["0.25", "0.5", "1"]]]) {
    const found = residualStream(appOf({ side }, {}), "");
    same(texts(found, "th"), ["sub-layer", ...heads, "cross-attention Decoder · layer 2"]);
    same(texts(found, "td"), numbers);
    const most = Math.max(...numbers.map(Number));
    same(found.querySelectorAll(".bar-fill").map((bar) => bar.style.width), numbers.map((x) => `${100 * x / most}%`));
  }
});

test("a translation, token by token", () => {
  const forced = [];
  const tokens = [[4, "x", 0.9999, true, [[4, "x", 0.9999], [5, "y", 0.0001]]], [6, "z", 0.25, false, [[5, "y", 0.5], [7, "w", 0.2]]]].map(
    ([id, text, probability, isForced, others]) => ({ id, text, probability, forced: isForced, alternatives: others.map(([one, name, p]) => ({ id: one, text: name, probability: p })) }));
  const answer = { source: SOURCE, tokens, text: "x z", finished: false, notes: ["a note"], tree: null };
  const app = appOf({ text: "a b", beam: 1, alpha: null, prefix: [4] }, { live: true, refusal: "" },
    { translation: answer, set: (change) => forced.push(change) });
  app.model = { ...MODEL, examples: [], limits: { tokens: 9, beam: 4 }, search: { alpha: 0.6, penalty: "gnmt" } };
  const root = element();
  translateView(app, root)(new Set(["translation"]));
  const places = root.querySelectorAll(".place");
  same(places.map((place) => texts(place, ".chance-text").map((text, i) => `${text} ${texts(place, ".chance-number")[i]}`)),
    [["x > 99.9 %", "y < 0.1 %"], ["y 50.0 %", "w 20.0 %", "z 25.0 %"]]);
  same(places.map((place) => place.classList.contains("forced")), [true, false]);
  same(texts(root, ".token"), ["a", "b", "<end>"]);
  assert.match(root.textContent, /Stopped at the limit of tokens; the model wrote no <end>\..*Release 1 forced token(?!s)/);
  places[1].querySelectorAll("button")[1].listeners.click();
  same(forced.at(-1).prefix, [4, 7]);
});

test("the sentence, the beam and the length penalty", () => {
  const cases = [[0.6, "gnmt", null], [1.3, "length", null], [1.3, "length", 0.6], [0.6, "gnmt", 0]];
  for (const [ofModel, penalty, asked] of cases) {
    const state = { text: "a b", beam: 3, alpha: asked, prefix: [], edits: [] }, app = appOf(state, { live: true, refusal: "" });
    app.model = { ...MODEL, examples: ["a b", "c"], limits: { tokens: 9, beam: 4 }, search: { alpha: ofModel, penalty } };
    const root = element(), draw = translateView(app, root);
    draw(new Set());
    const [beam, alpha] = root.querySelectorAll("input");
    same([beam.value, alpha.value, beam.max], ["3", String(asked ?? ofModel), 4]);
    const title = root.querySelectorAll("label").at(-1).title;
    assert.equal(title, `Length penalty: a score is the log-probability divided by ${penalty === "length" ? "length" : "((5 + length) / 6)"}^alpha`);
    for (const [typed, sent] of [[ofModel, null], [2, 2], [0, 0]]) {
      alpha.value = typed;
      root.querySelector("form").listeners.submit({ preventDefault: () => {} });
      same(app.changes.at(-1), { beam: 3, alpha: sent });
    }
    root.querySelector("textarea").value = " c ";
    root.querySelector("form").listeners.submit({ preventDefault: () => {} });
    same(app.changes.at(-1).text, "c");
  }
  const edits = ["head_off", "layer_off", "sublayer_off", "temperature", "set_weight", "set_mask"].map((kind) => ({ kind }));
  edits.push({ kind: "set_entry", key: "output" }, { kind: "set_entry", key: STEP });
  same(sentenceChange({ state: { edits } }, "c"), { text: "c", prefix: [], target: null, entry: null, objective: { kind: "loss" }, edits: [...edits.slice(0, 4), edits[6]] });
});

test("a heat map under the keyboard", async () => {
  const chosen = [], said = [];
  const shapes = [[2, 3, 4], [4, 6], [24], [1, 2, 3, 4], [2, 3, 2, 3]];
  for (const shape of shapes) {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => i - 5), most = values.length - 6;
    const root = element(), app = { say: (text) => said.push(text), tensor: () => {} };
    const map = new Heatmap(app, root, { onSelect: (index, value) => chosen.push([index, value]), rows: (i) => `r${i}`, columns: (j) => `c${j}` });
    await map.show({ shape, values });
    const press = (...keys) => { for (const key of keys) map.frame.listeners.keydown({ key, preventDefault: () => {} }); };
    const second = map.axes.querySelectorAll("button").find((one) => one.attributes["aria-label"] === "batch 2");
    if (shape.length === 4) second?.listeners.click();
    press("PageDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter");
    const [rows, columns] = pictureSize(shape), leading = shape.slice(0, -2).map((size) => Math.min(1, size - 1));
    const row = Math.min(1, rows - 1), index = [...leading, row, 2].slice(-shape.length);
    const place = index.reduce((at, i, axis) => at * shape[axis] + i, 0);
    same(chosen.at(-1), [index, values[place]], String(shape));
    assert.equal(map.readout.textContent, `[${index.join(", ")}] ${number(values[place], 5)} r${row} · c2`);
    press("End", "ArrowDown", "ArrowDown", "ArrowDown", "Enter");
    same(chosen.at(-1)[0], [...leading, rows - 1, columns - 1].slice(-shape.length));
    press("Home", "ArrowUp", "Enter");
    same(chosen.at(-1)[0].at(-1), 0);
    assert.equal(map.legend.textContent, `−${most}${most}`);
  }
  const positive = new Heatmap({ say: () => {} }, element());
  await positive.show({ shape: [2, 2], values: Float32Array.from([0, 1, 2, 0.25]) });
  assert.equal(positive.legend.textContent, "02");
  for (const [n, ...tags] of [[1], [2, "button", "button"], [16, ...Array(16).fill("button")], [17, "input"]]) {
    await positive.show({ shape: [1, n, 1, 1], values: Float32Array.from({ length: n }, (_, i) => i) });
    same(positive.axes.querySelectorAll("*").map(({ tag }) => tag).filter((tag) => /button|input/.test(tag)), tags);
  }
  for (const [typed, head] of [["17", 17], ["18", 17], ["3", 3], ["0", 1], ["16", 16], ["x", 1]]) {
    positive.axes.querySelector("input").listeners.change({ target: { value: typed } });
    same([positive.axes.querySelector("input").value, positive.axes.textContent], [String(head), "head "]);
  }
  const asked = [], root = element(), held = { shape: [9, 8], part: [[2, 7], [1, 4, 5]], values: Float32Array.from([1, 2, 3, 4, 5, 6]), rows: [0, 2], columns: [0, 3], least: 1, most: 6 };
  const map = new Heatmap({ say: () => {}, tensor: async (key, window) => { asked.push([key, window]); return held; } }, root, { onSelect: (index, value) => chosen.push([index, value]) });
  await map.show({ key: "k", rows: (i) => `r${i}`, columns: (j) => `c${j}` });
  map.select([7, 4]);
  assert.equal(map.readout.textContent, "[7, 4] 5 r7 · c4");
  map.select([6, 4]);
  assert.equal(map.readout.textContent, "Point at an entry; click to hold it.");
  same(asked, [["k", { at: [], held: true }]]);
});

test("the words of the tour", () => {
  const { look, number: entry } = TOUR;
  same([TOUR.count(2, 5), look.title("x"), entry.text("0.7", 3, "y").split(".").slice(0, 2).join("."), look.text("1,234").split(",").slice(0, 2).join(",")],
    ["Tour, step 2 of 5", "What did “x” look at?", "Head 3 gives “y” the weight 0.7", "This is a Transformer with 1,234 parameters"]);
});

const WEIGHTS = Float32Array.from([0.5, 0.25, 0.25, 0.125, 0.75, 0.125, -0.0625, 0, 1]);

test("the attention of a head", async () => {
  for (const [side, word, name] of [["forward", "weight", "weights.1"], ["backward", "gradient of the weight", "d_weights"]]) {
    const key = `${STEP}:scaled_dot_product_attention.${name}`, asked = [];
    const app = appOf({ side, entry: { key, index: [0, 1, 2, 0] }, block: "decoder", head: 0, edits: [], prefix: [] }, { live: true, refusal: "" },
      { tensor: async (...given) => { asked.push(given); return { values: WEIGHTS, least: -2, most: 1 }; } });
    const root = element();
    await attentionView(app, root)(new Set(["trace"]));
    same(asked, [0, 1].map((head) => [key, { at: [0, head] }]));
    assert.equal(texts(root, "h3")[0], "Decoder › layer 2 › cross-attention › head 2");
    assert.match(root.querySelector(".chosen-weight").textContent, new RegExp(`^Writes z \\(3\\) → reads a \\(1\\): ${word} −0\\.0625`));
    same(root.querySelector(".attention-lines").querySelectorAll("text").map((one) => one.attributes["aria-label"]), [
      "Writes x: a 0.5, b 0.25, <end> 0.25", "Writes y: b 0.75, a 0.125, <end> 0.125", "Writes z: <end> 1, a −0.0625, b 0",
      "Reads a: x 0.5, y 0.125, z −0.0625", "Reads b: y 0.75, x 0.25, z 0", "Reads <end>: z 1, x 0.25, y 0.125"]);
    const lines = root.querySelectorAll(".weight-line");
    same(lines.map((line) => [line.dataset.q, line.dataset.k, line.textContent.split(": ")[1]]).slice(0, 2), [["2", "2", `${word} 1`], ["1", "1", `${word} 0.75`]]);
    assert.equal(lines.length, 8);
    assert.match(lines[0].style.cssText, /stroke-width: 3\.00; --strength: 0\.65/);
    same(texts(root, ".heatmap-legend"), ["−22"]);
    const details = root.querySelector("details");
    Object.assign(details, { open: true }).listeners.toggle();
    same(details.querySelectorAll("tr").map((row) => row.children.map((cell) => cell.textContent)), [["writes \\ reads", "a", "b", "<end>"],
      ["x", "0.5", "0.25", "0.25"], ["y", "0.125", "0.75", "0.125"], ["z", "−0.0625", "0", "1"]]);
    root.querySelectorAll(".link")[0].listeners.click();
    same(app.changes.at(-1), { block: CROSS, value: key, head: 0, entry: { key, index: [0, 0, 2, 0] } });
    const off = { kind: "head_off", step: STEP, head: 0 };
    for (const [place, edits] of [[".head-picture", [off]], [".head-button", [off]]]) {
      root.querySelectorAll(place)[0].listeners.click();
      same(app.changes.at(-1), { edits });
    }
    app.state.edits = [off];
    root.querySelector(".head-picture").listeners.click();
    same(app.changes.at(-1), { edits: [] });
    root.querySelectorAll(".word")[0].listeners.focus();
    same(root.querySelectorAll(".source").map((one) => [one.style.cssText, one.classList.contains("lit")]), [["--lit: 100%", true], ["--lit: 50%", false], ["--lit: 50%", false]]);
    for (const [head, shown] of [[0, 1], [1, 2], [2, 2], [7, 2]]) { // of another attention, with more heads
      Object.assign(app.state, { entry: null, head });
      const other = element();
      await attentionView(app, other)(new Set(["trace"]));
      same(texts(other, "h3")[0], `Decoder › layer 2 › cross-attention › head ${shown}`);
    }
  }
});

test("a model in training", async () => {
  const shape = [1, 2, 3, 3], map = [...WEIGHTS, ...WEIGHTS].map((x, i) => (i < 9 ? x : 1 - x));
  const answer = { steps: [10, 20, 30], translations: ["p", "q", "r"], loss: [3, 2, 0.5],
    norms: { "decoder.layers.1.a": [3, 6, 0.3], "decoder.layers.1.b": [4, 8, 0.4], output: [1, 2, 100] }, gradient_norms: { output: [0.5, 0.25, 0.125] },
    attention: [10, 30].map((checkpoint) => ({ checkpoint, key: CROSS, shape, values: base64(Float32Array.from(checkpoint === 10 ? map : map.map((x) => 1 - x))) })) };
  const app = appOf({ text: "one", alpha: null, checkpoint: null, objective: { kind: "loss" } }, { live: true, training: async () => answer });
  const root = element();
  trainingView(app, root)(new Set(["trace", "model"]));
  await new Promise((done) => { setTimeout(done, 5); });
  const slider = root.querySelector("input");
  for (const [i, step, norms] of [[2, 30, [["loss", "0.5"], ["Decoder layer 2", "0.5"], ["Output", "100"], ["norm", "0.125"]]], [0, 10, [["loss", "3"], ["Decoder layer 2", "5"], ["Output", "1"], ["norm", "0.5"]]]]) {
    slider.value = i;
    slider.listeners.input();
    assert.equal(root.querySelector("output").textContent, `step ${step} of 30`);
    assert.equal(root.querySelector(".translation").textContent, "pqr"[i]);
    assert.match(root.textContent, new RegExp(`after step ${step}, with a loss of ${answer.loss[i]}. The other views show .*, with a loss of 1.5`));
    const rows = root.querySelectorAll("tr").map((row) => row.children.map((cell) => cell.textContent));
    same(rows.map(([, value]) => value), norms.map(([, value]) => value));
    same(rows.slice(1, 3).map(([name]) => name), ["Decoder layer 2", "Output"]);
    assert.match(root.querySelectorAll(".chart")[1].attributes["aria-label"], new RegExp(`now Decoder layer 2 ${norms[1][1]}, Output ${norms[2][1]}$`));
  }
  same(root.querySelectorAll(".weights-picture").map((one) => one.attributes["aria-label"]),
    ["Head 1: x to a 0.5, y to b 0.75, z to <end> 1", "Head 2: x to b 0.75, y to a 0.88, z to a 1.1"]);
  same(texts(root.querySelector(".weights-picture"), "title").slice(0, 4), ["x → a: 0.5", "x → b: 0.25", "x → <end>: 0.25", "y → a: 0.125"]);
  same(root.querySelectorAll(".legend").map((one) => one.children.map((line) => line.textContent.trim())), [["Decoder layer 2", "Output"]]);
  for (const [i, first, label] of [[0, "0.5", "head 1"], [1, "0.5", "head 1, at step 10"], [2, "0.5", "head 1"]]) {
    slider.value = i;
    slider.listeners.input();
    same([texts(root.querySelector(".weights-picture"), "title")[0], texts(root, "figcaption").find((text) => text.startsWith("head"))], [`x → a: ${first}`, label]);
  }
  slider.value = 0;
  slider.listeners.input();
  root.querySelectorAll("button")[1].listeners.click();
  same(app.changes, [{ checkpoint: 10 }]);
});

test("changes and what follows from them", async () => {
  const own = "encoder.layers.0.self_attention/multi_head_attention";
  const edits = [{ kind: "set_entry", key: "scale", index: [], value: 0.5 }, { kind: "set_weight", step: STEP, index: [0, 1, 2, 0], value: 0.25 },
    { kind: "head_off", step: STEP, head: 1 }, { kind: "sublayer_off", place: CROSS }, { kind: "layer_off", place: "decoder.layers.1" },
    { kind: "set_mask", step: STEP, index: [1, 2], visible: false }, { kind: "set_mask", step: own, index: [0, 1], visible: true },
    { kind: "temperature", step: "/linear", value: 2 }, { kind: "temperature", step: STEP, value: 0.1 }];
  const tokens = (ids) => ({ tokens: ids.map((id) => ({ id, text: MODEL.target_vocabulary[id], probability: id / 8, alternatives: [] })), text: "" });
  const app = appOf({ text: "one", beam: 1, alpha: null, edits, prefix: [4, 7], checkpoint: null, block: "" }, { live: true, translate: async () => tokens([4, 5, 6]) },
    { on: () => {}, translation: tokens([4, 6, 7]), trace: traceOf({ prediction: { before: 2, first_order: 2.5, after: 1.75 } }) });
  const root = element(), draw = editView(app, root), cross = "Decoder, layer 2, cross-attention";
  await draw(new Set(["trace", "translation"]));
  same(root.querySelector(".edits").children.map((one) => one.children[0].textContent), ["scale[] = 0.5", `${cross}, head 2: weight z (3) → a (1) = 0.25`,
    `${cross}: head 2 is off`, `${cross} is off`, "Decoder, layer 2 is off", `${cross}: y (2) → <end> (3) is masked`,
    "Encoder, layer 1, self-attention: a (1) → b (2) may be seen", "The output: temperature 2", `${cross}: temperature 0.1`, "What is written begins with: x w"]);
  same(texts(root.querySelector(".outcome"), "dd"), ["2", "2.5", "1.75"]);
  same(texts(root.querySelector(".changes"), "li"), ["Predicted by the gradient+0.5", "True change−0.25"]);
  same(root.querySelectorAll(".change-bar").map((bar) => bar.style.cssText), ["inline-size: 50.0%", "inline-size: 25.0%"]);
  same(texts(root.querySelector(".side-by-side"), "mark"), ["y", "w"]);
  same(texts(root.querySelector(".pairs"), "li"), ["x before 50.0 % now 50.0 %", "y before 62.5 % now 62.5 %", "z before 75.0 % now 75.0 %"]);
  app.state.block = `${CROSS}.w_out`;
  await draw(new Set(["block"]));
  const field = Object.fromEntries([...root.querySelectorAll("select"), ...root.querySelectorAll("input")].map((one) => [one.attributes.name, one]));
  same([field.attention.value, field.sublayer.value, field.layer.value], [STEP, CROSS, "decoder.layers.1"]); // the block that is chosen
  app.tensor = async () => ({ values: [3], part: null });
  const submit = async (values) => {
    for (const [name, value] of Object.entries(values)) field[name].value = value;
    await root.querySelector("form").listeners.submit({ preventDefault: () => {} });
    return app.changes.at(-1);
  };
  const last = async (values) => (await submit(values)).edits.at(-1);
  app.state.edits = [];
  same(await last({ kind: "set_entry", key: STEP, index: "0, 1, 2", value: "0,5" }), { kind: "set_entry", key: STEP, index: [0, 1, 2], value: 0.5 });
  same(await last({ how: "scale", value: "−2" }), { kind: "set_entry", key: STEP, index: [0, 1, 2], value: -6 });
  same(await last({ kind: "set_weight", attention: STEP, head: 1, query: 2, keyToken: 1, how: "set", value: "0.5" }), { kind: "set_weight", step: STEP, index: [0, 1, 2, 1], value: 0.5 });
  same(await last({ kind: "head_off" }), { kind: "head_off", step: STEP, head: 1 });
  same(await last({ kind: "set_mask", visible: "" }), { kind: "set_mask", step: STEP, index: [2, 1], visible: false });
  same(await last({ visible: "1" }), { kind: "set_mask", step: STEP, index: [2, 1], visible: true });
  same(await last({ kind: "temperature", step: STEP, value: "1.5" }), { kind: "temperature", step: STEP, value: 1.5 });
  same(await last({ kind: "sublayer_off", sublayer: CROSS }), { kind: "sublayer_off", place: CROSS });
  same(await last({ kind: "layer_off", layer: "decoder.layers.1" }), { kind: "layer_off", place: "decoder.layers.1" });
  same(await submit({ kind: "prefix", place: 2, token: 5 }), { prefix: [4, 6, 5] });
  app.state.edits = [{ kind: "head_off", step: STEP, head: 1 }, { kind: "head_off", step: STEP, head: 0 }];
  same((await submit({ kind: "head_off" })).edits.map(({ head }) => head), [0, 1]);
  for (const [values, said] of [[{ kind: "temperature", value: "0" }, "expected a number above 0"], [{ value: "x" }, "expected a finite number"], [{ kind: "set_entry", key: "none", value: "1" }, "Found no parameter"]]) {
    const before = app.changes.length;
    await submit(values);
    assert.equal(app.changes.length, before);
    assert.ok(texts(root, ".refusal")[0].includes(said), said);
  }
});

test("the statistics of a block", async () => {
  const app = appOf({ block: "", side: "forward", entry: null, view: "block" }, { live: true }), root = element();
  await blockView(app, root)(new Set(["trace"]));
  same(root.querySelectorAll("tr").slice(-4).map((row) => texts(row, "td")), traceOf().steps.map(({ place, operation, value, gradient }) =>
    [place, operation, "1 × 3 × 4", number(value.norm), number(gradient.norm)]));
  app.store = { live: true, sources: async () => ({}), formulas: async () => ({}) };
  app.tensor = async () => ({ shape: [1, 3, 4], values: new Float32Array(12), rows: [0, 3], columns: [0, 4], least: 0, most: 0 });
  const stat = { mean: 1, spread: 2, least: 3, most: 4, norm: 5 }, trace = traceOf();
  Object.assign(trace.steps[1], { value: stat, gradient: { ...stat, norm: 6 }, forward: [], backward: [], inputs: [] });
  Object.assign(app, { trace, step: (key) => trace.steps.find((one) => one.key === key), stepsAt: () => trace.steps });
  for (const [side, last] of [["forward", "5"], ["backward", "6"]]) {
    app.state = { block: STEP, side, entry: null, value: null, view: "block" };
    await blockView(app, root)(new Set(["trace"]));
    same(root.querySelector(".stats").children.map((one) => one.textContent), ["mean1", "spread2", "least3", "most4", `norm${last}`]);
  }
});

test("the picture of the model, of which each block says what its last step hands on", () => {
  const { model, trace } = JSON.parse(readFileSync("answers.json", "utf8"));
  const inside = (place, key) => `${place}.`.startsWith(`${key}.`);
  for (const side of ["forward", "backward"]) {
    const root = element(), app = appOf({ block: "", side, view: "block", checkpoint: null }, { live: true }, { model, trace });
    app.step = (key) => trace.steps.find((step) => step.key === key);
    app.stepsAt = (place, deep) => trace.steps.filter((step) => (deep ? inside(step.place, place) : step.place === place));
    figureView(app, root)(new Set(["model"]));
    assert.equal(root.querySelector("p").textContent, `${model.parameters.toLocaleString("en")} parameters · post-norm · 2 heads · the mean of the weights over the last steps`);
    const labels = root.querySelectorAll("[aria-pressed]").map((one) => one.attributes["aria-label"]);
    for (const place of ["self_attention", "feed_forward", "cross_attention"].flatMap((part) => ["encoder", "decoder"].map((stack) => `${stack}.layers.0.${part}`))) {
      const step = app.stepsAt(place, true).at(-1);
      if (!step) continue;
      const said = side === "forward" ? step.shape.join(" by ") : `norm of the gradient ${number(step.gradient.norm, 3)}`;
      assert.ok(labels.some((label) => label.endsWith(`, ${said}`)), `${place}: ${said} in ${labels.join("; ")}`);
    }
    app.state.view = "walk";
    const order = side === "backward" ? trace.walk : trace.steps;
    for (let walk = 0; walk < order.length; walk += 1) {
      app.state.walk = walk;
      const picture = element(), { key } = order[walk], place = key.split("/")[0];
      figureView(app, picture)(new Set(["model"]));
      const wanted = [[/^\/transpose/, null], [/^\/linear/, /^Linear,/], [/^\/cross_entropy/, /^Softmax, loss,/], [/_embedding\/add$/, /Positions,/], [/source_embedding/, /^Source Embedding,/], [/target_embedding/, /^Target Embedding,/], [/residual/, /layer 1, Add & norm,/],
        [/encoder.*self_attention/, /^Encoder layer 1, Self-attention,/], [/decoder.*self_attention/, /^Decoder layer 1, Masked self-att/], [/cross_attention/, /^Decoder layer 1, Cross-attention,/], [/feed_forward/, /layer 1, Feed-forward,/]].find(([keys]) => keys.test(key))[1];
      const current = picture.querySelectorAll(".current").map((one) => one.attributes["aria-label"]), stack = /^(encoder|decoder)\./.exec(place)?.[1] ?? "";
      assert.ok(wanted ? current.length === 1 && wanted.test(current[0]) && current[0].toLowerCase().startsWith(stack) : !current.length, `${walk} ${key}: ${current}`);
      if (walk === order.length - 1) same(picture.querySelectorAll(".waiting").length, 0);
    }
  }
});

test("the panel of the model scrolls to a block that cannot be seen, and only then", () => {
  const { model, trace } = JSON.parse(readFileSync("answers.json", "utf8")), place = "encoder.layers.0.feed_forward";
  const root = element(), app = appOf({ block: "", side: "forward", view: "block", checkpoint: null }, { live: true }, { model, trace, stepsAt: () => [] }), scrolled = [];
  const draw = figureView(app, root);
  draw(new Set(["model"]));
  Object.assign(root, { scrollBy: ({ top }) => scrolled.push(top), getBoundingClientRect: () => ({ top: 100, bottom: 400, height: 300 }) });
  for (const [top, height, by, changed = "block"] of [[100, 300, null], [99, 20, -151], [381, 20, 131], [380, 20, null], [-50, 30, -300], [99, 20, null, "edits"]]) {
    for (const block of root.querySelectorAll("[aria-pressed]")) block.getBoundingClientRect = () => (/Encoder layer 1, Feed/.test(block.attributes["aria-label"]) ? { top, bottom: top + height, height } : { top: 9999, bottom: 9999, height: 0 });
    for (const [block, scrollHeight] of [[place, 302], [place, 301], ["none", 302]]) {
      Object.assign(app.state, { block }), Object.assign(root, { scrollHeight, clientHeight: 300 });
      root.querySelector(".drawing").replaceChildren = () => {}; // the blocks stay
      scrolled.length = 0;
      draw(new Set([changed]));
      same(scrolled, by !== null && block === place && scrollHeight > 301 ? [by] : [], `${top} ${block} ${scrollHeight}`);
    }
  }
});

test("blocks of the picture of a model overlap nowhere and stay inside, also of a decoder alone", () => {
  const { model, trace } = JSON.parse(readFileSync("answers.json", "utf8"));
  const alone = { ...model, places: model.places.filter(({ place }) => !/encoder|cross/.test(place)) };
  for (const [one, widest] of [[model, 400], [alone, 280]]) {
    const root = element(), app = appOf({ block: "", side: "forward", view: "block", checkpoint: null }, { live: true }, { model: one, trace });
    app.step = (key) => trace.steps.find((step) => step.key === key);
    app.stepsAt = (place) => trace.steps.filter((step) => step.place === place);
    figureView(app, root)(new Set(["model"]));
    const drawing = root.querySelectorAll("svg").find((part) => "viewBox" in part.attributes && part.querySelector("[aria-pressed]"));
    const [, , width, height] = drawing.attributes.viewBox.split(" ").map(Number);
    assert.ok(Number(drawing.attributes.width) <= widest, `${drawing.attributes.width} > ${widest}`);
    const boxes = drawing.querySelectorAll("[aria-pressed]").map((block) => {
      const { x, y, width: wide, height: high } = block.querySelector("rect").attributes;
      return [Number(x), Number(y), Number(x) + Number(wide), Number(y) + Number(high)];
    });
    assert.ok(boxes.length >= 5);
    for (const [i, [x0, y0, x1, y1]] of boxes.entries()) {
      assert.ok(x0 >= 0 && y0 >= 0 && x1 <= width && y1 <= height, `${i}: ${boxes[i]} in ${width} x ${height}`);
      for (const [a0, b0, a1, b1] of boxes.slice(0, i)) assert.ok(a1 <= x0 || x1 <= a0 || b1 <= y0 || y1 <= b0, `${i}: ${boxes[i]} overlaps ${[a0, b0, a1, b1]}`);
    }
  }
});

test("the inside of an attention, each part a button", async () => {
  const { model, trace } = JSON.parse(readFileSync("answers.json", "utf8")), place = "decoder.layers.0.cross_attention";
  for (const [side, mark] of [["forward", ""], ["backward", "d_"]]) {
    const app = appOf({ block: place, side, entry: null, value: null, view: "block", head: null }, { live: true, sources: async () => ({}), formulas: async () => ({}) }, { model, trace });
    const asked = [], root = element(), draw = blockView(app, root);
    app.step = (key) => trace.steps.find((step) => step.key === key);
    app.stepsAt = (where) => trace.steps.filter((step) => step.place === where);
    app.tensor = async (key, { rows, columns }) => {
      asked.push([key, columns]);
      return { shape: [8, 24], values: new Float32Array((rows[1] - rows[0]) * (columns[1] - columns[0])), rows, columns, least: 0, most: 0 };
    };
    await draw(new Set(["trace"]));
    const boxes = new Map(root.querySelector(".parts").querySelectorAll("[role]").map((box) => [box.attributes["aria-label"].split(",")[0], box]));
    same([...boxes.keys()].sort(), ["x", "memory", "W_Q", "W_K", "W_V", "Q", "K", "V", "scores", "weights", "concat", "W_O", "output"].map((name) => mark + name)
      .concat(side === "forward" ? ["mask"] : []).sort());
    asked.length = 0;
    for (const [name, columns] of [["W_Q", [0, 8]], ["W_K", [8, 16]], ["W_V", [16, 24]]]) {
      app.set = (change) => Object.assign(app.state, change);
      boxes.get(mark + name).listeners.click();
      await draw(new Set(["value"]));
      same(asked.at(-1), [`${side === "backward" ? "d:" : ""}${place}.w_in`, columns]);
      assert.equal(boxes.get(mark + name).attributes["aria-pressed"], "true");
    }
    const frame = root.querySelector(".heatmap-frame");
    for (const key of ["ArrowRight", "ArrowRight", "Enter"]) frame.listeners.keydown({ key, preventDefault: () => {} });
    same(app.state.entry.index, [0, 17]); // the index is that of w_in
  }
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
  await assert.rejects(() => store.sources(), { message: "no" });
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
  await assert.rejects(() => store.trace({}), { message: "The server has stopped." });
});

test("a deep model fits: of each stack one layer is drawn in full, that of the chosen block", () => {
  const { model, trace } = JSON.parse(readFileSync("answers.json", "utf8")), n = 12;
  const places = model.places.flatMap((one) => (/\.layers\.0/.test(one.place) ? Array.from({ length: n }, (_, i) => ({ ...one, place: one.place.replace(".0", `.${i}`) })) : [one]));
  const app = appOf({ block: "", side: "forward", view: "block", checkpoint: null }, { live: true }, { model: { ...model, places }, trace });
  app.step = () => undefined;
  app.stepsAt = () => [];
  const root = element(), names = () => texts(root, ".name-text").filter((name) => /Layer|Cross/.test(name)).join(" ");
  const layers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => `Layer ${from + i}`).join(" "), all = layers(1, n);
  globalThis.innerHeight = 900;
  const draw = figureView(app, root);
  for (const [block, decoder] of [["", `${layers(1, 11)} Cross-attention Layer 12`], ["decoder.layers.3.cross_attention", `${layers(1, 3)} Cross-attention ${layers(4, n)}`]]) {
    app.state.block = block;
    draw(new Set(["block"]));
    assert.equal(names(), `${all} ${decoder}`);
    assert.ok(root.querySelector(".drawing").attributes.height < 900);
  }
  delete globalThis.innerHeight;
  app.state.block = "";
  draw(new Set(["model"]));
  assert.equal(names().match(/Cross-attention/g).length, n);
});

test("the numbers that modules give names to", () => {
  const numbers = readdirSync(".").filter((file) => /^(?!page_).*\.js$/.test(file)).flatMap((file) => [...readFileSync(file, "utf8").matchAll(/^(?:export )?const ([A-Z_]+ = -?[\d.e]+(?:, [A-Z_]+ = -?[\d.e]+)*);/gm)].map(([, found]) => `${file}: ${found}`));
  compare(numbers, `${process.env.EXPLORER_TESTS}/numbers.txt`);
});
