// What the whole page draws in many states, line by line, and what each button does. The drawings are in `drawings/`;
// with DRAW=1 in the environment they are written anew.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import test from "node:test";
import { savedOf } from "./page_answers.js";
import { outline } from "./page_document.js";
import { address, alarms, compare, settle, visit } from "./page_visit.js";

const FOLDER = `${process.env.EXPLORER_TESTS}/drawings`;

/** Return the address, the lines of some parts of the page, and after each button and choice what it changes. */
async function drawingOf({ app }, parts) {
  const lines = [decodeURIComponent(location.hash)];
  for (const id of parts) {
    const root = id === "body" ? document.body : document.getElementById(id), { activeElement } = document;
    assert.ok(root.tag !== "section" || !root.hidden, `${id} cannot be seen`);
    for (const details of root.querySelectorAll("details")) Object.assign(details, { open: true }).listeners.toggle?.();
    const [own, uses] = outline(root);
    for (const [line, node] of uses) {
      const changes = [], before = node.given;
      app.set = (change) => { changes.push(JSON.stringify(change, (name, value) => (name === "asked" ? undefined : value))); };
      if (node.tag === "select") node.value = node.options.at(-1)?.value;
      await (node.listeners.click ?? node.listeners.change)({ target: node, preventDefault: () => {} });
      await settle(2);
      if (node.tag === "select") node.given = before;
      delete app.set;
      if (changes.length) own[line] += ` → ${changes.join(" ")}`;
    }
    document.activeElement = activeElement;
    lines.push(`--- ${id}`, ...own);
  }
  return lines;
}

const CROSS = "decoder.layers.0.cross_attention", MULTI = `${CROSS}/multi_head_attention`, WEIGHTS = `${MULTI}:scaled_dot_product_attention.weights`;
const OWN = "decoder.layers.0.self_attention/multi_head_attention", FEED = "decoder.layers.0.feed_forward", STEP = `${FEED}/feed_forward`, TABLE = "target_embedding.table";
const OFF = [{ kind: "head_off", step: MULTI, head: 1 }];
const EDITS = [...OFF, { kind: "set_entry", key: "decoder.layers.0.feed_forward.b1", index: [2], value: 0.5 }, { kind: "set_weight", step: OWN, index: [0, 1, 2, 0], value: 0.25 },
  { kind: "sublayer_off", place: "encoder.layers.0.self_attention" }, { kind: "layer_off", place: "encoder.layers.0" }, { kind: "set_mask", step: OWN, index: [1, 2], visible: false },
  { kind: "set_mask", step: MULTI, index: [0, 1], visible: true }, { kind: "temperature", step: "/linear", value: 2 }];
const DIFFERENCE = "difference:1:5:7", ALONE = { model: { alone: true, options: { norm: "pre", positions: "learned" } }, trace: { alone: true, norm: "pre" } };
const block = (name, side = "forward", more = {}) => ({ view: "block", block: name, side, ...more });

/** Each drawing: what the address says, what is drawn, and what else is special. */
const CASES = {
  "start": [{}, ["body"]],
  "attention-backward": [{ side: "backward", view: "attention", block: "encoder.layers.0.self_attention", word: "1" }, ["attention"]],
  "attention-entry": [{ view: "attention", block: CROSS, entry: `${WEIGHTS}@0,1,2,0`, edits: OFF }, ["attention"]],
  "attention-dark": [{ view: "attention", block: "decoder", head: "0" }, ["attention"], { then: () => document.getElementById("theme").click() }],
  "block-attention": [block(CROSS), ["block"]],
  "block-attention-backward": [block(OWN, "backward", { value: `d:${OWN.split("/")[0]}.w_in`, entry: `d:${OWN.split("/")[0]}.w_in@1,9` }), ["block"], { across: 900 }],
  "block-weights": [block(MULTI, "forward", { value: WEIGHTS, entry: `${WEIGHTS}@0,1,2,0` }), ["block"]],
  "block-head": [block(MULTI, "forward", { value: WEIGHTS, head: "1" }), ["block"]],
  "block-feed-forward": [block(FEED, "forward", { entry: `${STEP}@0,1,2` }), ["block"]],
  "block-norm-backward": [block("decoder.layers.0.residual2", "backward"), ["block"]],
  "block-embedding": [block("source_embedding"), ["block"]],
  "block-positions": [block("source_embedding/add", "backward"), ["block"]],
  "block-residual": [block("encoder.layers.0.residual1/add", "forward"), ["block"]],
  "block-linear": [block("/linear", "backward"), ["block"]],
  "block-loss": [block("/cross_entropy"), ["block"]],
  "block-loss-backward": [block("/cross_entropy", "backward"), ["block"]],
  "block-table": [block(TABLE), ["block"]],
  "block-model": [block(""), ["block"]],
  "block-layer-backward": [block("decoder.layers.0", "backward"), ["block"]],
  "walk-start": [{ view: "walk" }, ["walk"]],
  "walk-forward": [{ view: "walk", walk: "15" }, ["walk", "figure"]],
  "walk-end": [{ view: "walk", walk: "23" }, ["walk"]],
  "walk-backward": [{ view: "walk", walk: "22", side: "backward" }, ["walk", "figure"]],
  "walk-backward-start": [{ view: "walk", walk: "0", side: "backward" }, ["walk"]],
  "walk-parameter": [{ view: "walk", walk: "4", side: "backward" }, ["walk"]],
  "edit-nothing": [{ view: "edit" }, ["edit"]],
  "edit-much": [{ view: "edit", edits: EDITS, prefix: "4,7", block: "encoder.layers.0.self_attention" }, ["edit", "translate", "figure"]],
  "edit-heads": [{ view: "edit", edits: [...OFF, { ...OFF[0], head: 0 }] }, ["edit", "figure"]],
  "entry": [{ entry: `d:${STEP}@0,1,2` }, ["entry"]],
  "entry-weight": [{ entry: `${WEIGHTS}@0,1,2,0` }, ["entry"]],
  "entry-constant": [{ entry: `${MULTI}:multi_head_attention.mask@0,0,0,1` }, ["entry"]],
  "entry-backward": [{ entry: `${MULTI}:multi_head_attention.d_concat@0,0,1` }, ["entry"]],
  "entry-refused": [{ entry: `d:${STEP}@0,1,2` }, ["entry", "banner"], { refuse: (name) => (name === "difference" ? [400, { error: "difference: found `x`" }] : null) }],
  "objective-difference": [block("", "backward", { objective: DIFFERENCE }), ["objective", "figure", "block"]],
  "objective-token": [{ view: "edit", side: "backward", objective: "log_probability:2:6", edits: OFF }, ["objective", "edit"]],
  "translation": [{ beam: "3", alpha: "0.5", checkpoint: "20" }, ["translate", "title"]],
  "translation-forced": [{ text: "x words", prefix: "4,6", edits: OFF }, ["translate"]],
  "translation-alone": [{}, ["translate", "figure", "attention"], { ...ALONE, model: { ...ALONE.model, search: { alpha: 1.25, penalty: "length" } } }],
  "training": [{ view: "training" }, ["training"]],
  "training-middle": [{ view: "training", checkpoint: "20" }, ["training"], { then: () => useSlider("1") }],
  "training-few": [{ view: "training" }, ["training"], { training: { steps: [10] } }],
  "training-none": [{ view: "training" }, ["training"], { training: { steps: [] } }],
  "training-refused": [{ view: "training" }, ["training"], { refuse: (name) => (name === "training" ? [400, { error: "training: found `x`" }] : null) }],
  "figure-low": [{ block: CROSS }, ["figure"], { height: 560 }],
  ...Object.fromEntries([700, 900, 1100].map((height) => [`figure-deep-${height}`, [{ block: "encoder.layers.0.self_attention" }, ["figure"], { height, model: { layers: 2 } }]])),
  "figure-ten": [{ block: "encoder.layers.10.feed_forward", edits: [{ kind: "layer_off", place: "encoder.layers.1" }, ...[9, 1, 10].map((head) => ({ kind: "head_off", step: "decoder.layers.11.cross_attention/multi_head_attention", head }))] }, ["figure"], { height: 1100, model: { layers: 12, options: { n_heads: 12 } }, trace: { layers: [0, 1, 10] } }],
  "block-ten": [block("encoder.layers.10"), ["block"], { model: { layers: 12 }, trace: { layers: [0, 1, 10] } }],
  "figure-options": [{ side: "backward" }, ["figure"], { model: { options: { norm: "rms", positions: "rotary", n_kv_heads: 1, n_heads: 2 } }, trace: { norm: "pre" } }],
  "letters": [{ view: "attention" }, ["attention", "translate"], { rename: (text) => [...text][0] }],
  "long-words": [{ view: "attention" }, ["attention", "translate"], { rename: (text) => text.repeat(4) }],
  "saved": [{ view: "edit", beam: "1", entry: `d:${FEED}.w1@1,2` }, ["translate", "edit", "entry", "objective"], { saved: {} }],
  "saved-attention": [{ view: "attention", side: "backward" }, ["attention", "objective"], { saved: { many: true } }],
  "saved-block": [block(CROSS, "backward", { entry: `d:${STEP}@0,1,2` }), ["block", "entry"], { saved: {} }],
  "saved-training": [{ view: "training" }, ["training"], { saved: {} }],
  ...Object.fromEntries([1, 2, 3, 4, 5].map((tour) => [`tour-${tour}`, [{ tour: String(tour) }, ["tour"]]])),
  "tour-saved": [{ tour: "4" }, ["tour"], { saved: {} }],
  "tour-heads": [{ tour: "4", edits: OFF }, ["tour"]],
  "tour-alone": [{ tour: "2" }, ["tour"], ALONE],
};

function useSlider(value) {
  const slider = document.getElementById("training").querySelector(".checkpoint-slider");
  slider.value = value;
  slider.listeners.input();
}

for (const [name, [choices, parts, { then, saved, ...options } = {}]] of Object.entries(CASES)) {
  test(`the drawing ${name}`, async () => {
    const page = await visit(address(choices), { ...options, saved: saved && savedOf(saved) });
    then?.();
    await settle();
    compare(await drawingOf(page, parts), `${FOLDER}/${name}.txt`);
    if (!options.refuse) assert.deepEqual([...page.errors, ...alarms()], []);
  });
}

test("each drawing has a case", () => {
  assert.deepEqual(readdirSync(FOLDER).sort(), Object.keys(CASES).map((name) => `${name}.txt`).sort());
});
