// What changes on the whole page, and what is asked of the server, while somebody uses it. The stories are in `stories/`;
// with DRAW=1 in the environment they are written anew.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { $, SELDOM, acting, click, event, give, go, hear, key, later, named, press, refusal, refuse, saidIn, set, tick, wide } from "./page_acts.js";
import { digest, noted, outline } from "./page_document.js";
import { savedOf } from "./page_answers.js";
import { address, compare, settle, visit } from "./page_visit.js";

const FOLDER = `${process.env.EXPLORER_TESTS}/stories`;
const CROSS = "decoder.layers.0.cross_attention", MULTI = `${CROSS}/multi_head_attention`, WEIGHTS = `${MULTI}:scaled_dot_product_attention.weights`;
const FEED = "decoder.layers.0.feed_forward", STEP = `${FEED}/feed_forward`, OFF = { kind: "head_off", step: MULTI, head: 1 }, OWN = "encoder.layers.0.self_attention";

/** Each story: the address with which it begins, what is done, and what else is special. */
const STORIES = {
  "heat-map": [{ view: "block", block: MULTI, value: WEIGHTS }, [
    hear("pointermove", "#block .heatmap-frame", { clientX: 100, clientY: 60 }), hear("pointermove", "#block .heatmap-frame", { clientX: 100, clientY: 61 }), hear("pointermove", "#block .heatmap-frame", { clientX: 1, clientY: 1 }),
    hear("pointermove", "#block .heatmap-frame", { clientX: 120, clientY: 75 }), hear("pointerleave", "#block .heatmap-frame"), key("#block .heatmap-frame", "ArrowRight"), key("#block .heatmap-frame", "ArrowDown"), key("#block .heatmap-frame", "PageDown"),
    key("#block .heatmap-frame", "x"), key("#block .heatmap-frame", "Enter"), hear("blur", "#block .heatmap-frame"), hear("click", "#block .heatmap-frame", { clientX: 140, clientY: 100 }), hear("click", "#block .heatmap-frame", { clientX: 399, clientY: 299 }),
    click("#block .picker button"), set({ entry: null }), click("#theme")]],
  "heat-map-wide": [{ view: "block", block: "/linear", value: "target_embedding.table" }, [wide(90), key("#block .heatmap-frame", "End"), key("#block .heatmap-frame", "ArrowRight"), key("#block .heatmap-frame", "ArrowDown"), hear("scroll", "#block .heatmap-frame"), wide(400)]],
  "translation": [{}, [press("Play again"), press("Next token"), tick, press("Play again"), tick, tick, press("Next token"), tick, press("Next token"), press("Next token"), press("Show all"), press("Play again"), tick, tick, tick, tick, tick], { motion: true }],
  "translation-still": [{}, [press("Play again"), press("Next token")]],
  "sentence": [{ edits: [OFF] }, [give("#sentence", " small  words "), hear("keydown", "#sentence", { key: "Enter", shiftKey: true }), hear("keydown", "#sentence", { key: "Enter" }), give("#translate input", "3"), hear("submit", ".sentence-form"),
    give("#translate input", "1.5", "input", 1), hear("submit", ".sentence-form"), give("#translate select", "two small words", "change"), press("Undo all changes")]],
  "tree": [{ beam: "2" }, [hear("click", ".tree-drawing [data-id]", {}, 3), press("Force these tokens and continue"), hear("change", "#translate input", {}, 2), set({ beam: 1, prefix: [] })]],
  "walk": [{ view: "walk" }, [press("Play"), tick, tick, press("Pause"), press("Step forward"), press("Step back"), give("#walk input", "22"), press("Play"), tick, tick, press("Play"), click("#walk .link", 5), set({ side: "backward" }), set({ walk: 1000 }),
    press("Open the block")]],
  "training": [{ view: "training" }, [click("#training button"), tick, tick, tick, give("#training input", "0"), click("#training button"), click("#training button"), give("#training select", "encoder.layers.0.self_attention/multi_head_attention", "change"),
    press("Explore this checkpoint"), press("Back to the trained model"), set({ text: "small words" }), set({ view: "block" })]],
  "attention": [{ view: "attention" }, [hear("mouseenter", ".word", {}, 1), hear("mouseleave", ".word", {}, 1), hear("focus", ".word", {}, 2), hear("blur", ".word", {}, 2), click(".word", 1), hear("pointermove", ".weights-picture", { clientX: 9, clientY: 150 }), hear("pointermove", ".weights-picture", { clientX: 9, clientY: 9 }),
    hear("pointerleave", ".weights-picture"), click(".word", 1), click(".head-picture", 1), click(".head-picture", 1), click("#attention .link", 1), hear("click", ".weight-line", {}, 2), hear("mouseenter", ".attention-lines text"), hear("mouseleave", ".attention-lines text"), hear("focus", ".attention-lines text", {}, 4),
    click(".head-button", 2), hear("click", "#attention .heatmap-frame", { clientX: 140, clientY: 100 }), click("#attention .link", 0), give("#attention select", "encoder.layers.0.self_attention", "change"), set({ side: "backward" })]],
  "block": [{ view: "block", block: CROSS }, [click("#block .chip", 1), click("#block li", 3), click("#block .steps button", 1), click("#block .chip"), hear("keydown", ".parts g", { key: "Enter" }, 3), hear("keydown", ".parts g", { key: "x" }, 4), click("#block .link"), wide(900),
    set({ side: "backward" }), set({ block: "encoder" }), set({ block: "encoder.layers.0.residual1" }), click("#block .steps button", 0), click("#block .tile", 1), set({ entry: { key: "encoder.layers.0.residual1/add", index: [0, 1, 1] } }), click("#theme")]],
  "figure": [{ block: CROSS }, [...["ArrowUp", "ArrowUp", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowDown", "x"].map((name) => [`key ${name} in the drawing`, () => {
    document.activeElement ??= named("Decoder layer 1, Cross-attention, 1 by 3 by 4");
    $("#figure svg").listeners.keydown(event(document.activeElement, { key: name }));
  }]), key("#figure svg", "Enter"), set({ view: "walk", walk: 3 }), set({ side: "backward" }), set({ edits: [OFF] }), set({ edits: [OFF, { ...OFF, head: 0 }, { kind: "sublayer_off", place: FEED }] }), wide(300), set({ view: "attention" }), key("#figure svg", " ")]],
  "figure-folded": [{ block: "encoder.layers.0.self_attention" }, [["focus what is chosen", () => named("Encoder layer 1, Self-attention, 1 by 4 by 4").focus()], wide(380), set({ block: "encoder.layers.1.feed_forward" })], { height: 420, model: { layers: 2 } }],
  "edit": [{ view: "edit" }, [...[...["set_weight", "head_off", "sublayer_off", "layer_off", "set_mask", "temperature", "prefix", "set_entry"].map((kind) => give("#edit select", kind, "change"))],
    give("#edit input", `${FEED}.w1`), give("#edit input", "1, 2", "input", 1), give("#edit input", "0,5", "input", 2), hear("submit", ".edit-form"), set({ entry: { key: STEP, index: [0, 1, 2] } }), hear("submit", ".edit-form"), give("#edit input", "9", "input", 1), hear("submit", ".edit-form"),
    press("Undo"), press("Undo"), press("Undo"), give("#edit select", "layer_off", "change"), set({ block: "encoder.layers.0.feed_forward" }), hear("submit", ".edit-form"), refuse([400, { error: "trace: found `x`, expected `y`" }]),
    give("#edit select", "sublayer_off", "change"), hear("submit", ".edit-form"), refuse(null), press("Reset"), press("Undo"), set({ text: "small words" }),
    set({ view: "edit", draft: { kind: "set_weight", step: MULTI, index: [0, 1, 2, 3], asked: 1 } }), set({ draft: { kind: "set_entry", key: STEP, index: [0, 2, 3], asked: 2 } })]],
  "entry": [{}, [give("#entry input", `d:${STEP}`), hear("input", "#entry input"), give("#entry input", "0 1 2", "input", 1), hear("submit", ".entry-form"), give("#entry input", "0, 9, 9", "input", 1), hear("submit", ".entry-form"), give("#entry input", "none"), hear("submit", ".entry-form"),
    set({ side: "backward" }), press("Close"), set({ entry: { key: WEIGHTS, index: [0, 0, 0, 0] } }), press("Change this entry"), set({ side: "backward", entry: { key: "/cross_entropy", index: [] } }), set({ objective: { kind: "log_probability", position: 0, token: 4 } })]],
  "entry-saved": [{}, [give("#entry select", "0", "change"), give("#entry select", "", "change"), set({ entry: { key: STEP, index: [0, 0, 0] } }), set({ entry: { key: `${FEED}.w1`, index: [0, 0] } }), set({ beam: 2 }), set({ prefix: [4] })], { saved: {} }],
  "sentences-saved": [{}, [give("#translate select", "small words", "change"), give("#translate select", "two small words", "change"), set({ text: "other words" })], { saved: { many: true } }],
  "training-stopped": [{}, [refuse("stopped"), set({ view: "training" }), refuse(null), set({ text: "small words" })]],
  "flow": [{}, [set({ view: "walk" }), later, set({ text: "small words" }), set({ side: "backward" }), later], { motion: true }],
  "flow-learned": [{}, [later, set({ text: "small words" })], { motion: true, model: { options: { positions: "learned" } } }],
  "beyond": [{}, [go({ side: "backward", objective: "log_probability:9:5" }), go({ view: "walk", walk: "999" }), go({ view: "attention", head: "9", word: "9" }), go({ view: "block", block: "nowhere", value: "nothing" }), go({ view: "block", block: CROSS, value: "/linear" }), go({ view: "block", block: MULTI, value: WEIGHTS, entry: `${WEIGHTS}@0,2,0,0` }), go({ view: "block", block: MULTI, value: WEIGHTS, head: "2" }), go({ entry: "x@0" }), go({ entry: `${STEP}@0,9,9` }),
    go({ view: "training", checkpoint: "7" }), go({ beam: "99", alpha: "-1" }), go({ tour: "9" }), go({ text: " " })]],
  "asked-again": [{}, ["model", "translate", "trace", "tensor", "difference", "sources", "formulas", "training"].flatMap((name) => [
    [`refused: ${name}`, () => { acting.refusing = (asked) => (asked === name ? [400, { error: `${name}: found \`x\`` }] : null); }],
    set({ view: "training", text: "small words", side: "backward", entry: { key: `d:${STEP}`, index: [0, 1, 2] } }), set({ view: "block", block: CROSS, text: "two words" }), refuse(null), set({ view: "training" }), set({ view: "block", block: FEED, entry: null })])],
  "many-tokens": [{}, [set({ view: "attention" }), click(".head-picture", 1), click("#attention summary"), set({ side: "backward" }), set({ view: "walk", walk: 3 }), set({ view: "block", block: CROSS })], { trace: { source: Array.from({ length: 45 }, (_, i) => 4 + i % 3), target: Array.from({ length: 42 }, (_, i) => 4 + i % 3) } }],
  "objective": [{ side: "backward" }, [give("#objective select", "log_probability", "change"), give("#objective select", "1", "change", 1), give("#objective select", "difference", "change"), give("#objective select", "3", "change", 3), give("#objective select", "loss", "change"), set({ side: "forward" }),
    set({ side: "backward", target: [4, 5, 6, 7, 4], objective: { kind: "difference", position: 0, token: 4, other: 6 } }), give("#objective select", "4", "change", 1)]],
  "tour": [{}, [press("Next"), press("Next"), press("Back"), press("Next"), press("Next"), press("Switch off all heads"), press("Switch them on"), click(".head-picture"), press("Next"), press("End the tour"), press("Tour"), press("Leave the tour")], { tour: true }],
  "tabs": [{}, [key("#tabs", "ArrowRight"), ...["ArrowRight", "ArrowLeft", "x"].map((name) => [`key ${name} at the first tab`, () => { $("#tab-attention").focus(); $("#tabs").listeners.keydown(event($("#tabs"), { key: name })); }]),
    click("#tab-edit"), press("Backward"), press("Forward"), click("#theme"), click("#theme"), click("#language")]],
  "address": [{ view: "none", side: "left", edits: "x" }, [go({ block: STEP, side: "backward", head: "1", word: "0", value: `d:${STEP}`, target: "4,5" }), go({ text: "small words", alpha: "0.25", beam: "2", prefix: "4,5", checkpoint: "0", tour: "2" }), go({ objective: "log_probability:1:5" }),
    go({ objective: "difference:0:4:5", entry: `${STEP}@0,1,2` }), ["a link inside the page", () => { location.hash = "#figure"; document.dispatchEvent({ type: "hashchange" }); }], go({}), go({ walk: "3", view: "walk" })]],
  "requests": [{}, [refuse([400, { error: "translate: found `x`" }]), set({ text: "small words" }), refuse(null), set({ text: "two words" }), set({ text: "two words" }), set({ text: " " }), set({ text: "small" }), set({ edits: [OFF] }), set({ edits: [OFF, { ...OFF, head: 0 }] }), set({ prefix: [4] }), set({ target: [4, 5] }),
    set({ objective: { kind: "log_probability", position: 0, token: 4 } }), set({ checkpoint: 10 }), set({ beam: 3, alpha: 0.5 }), refuse([500, {}]), set({ text: "words" }), refuse("stopped"), set({ text: "two" }), set({ view: "walk", walk: 5 }), refuse(null), set({ text: "small two" })]],
};

/** Return the first of many lines, and a digest, so that each change shows. */
function few(mark, lines, most = 14) {
  return [...lines.slice(0, most).map((line) => `${mark} ${line}`), ...(lines.length > most ? [`${mark} ... ${lines.length} lines of digest ${digest(lines.join("\n"))}`] : [])];
}

for (const [name, [choices, acts, { saved, ...options } = {}]] of Object.entries(STORIES)) {
  test(`the story ${name}`, async () => {
    acting.refusing = null;
    const { asked, errors } = await visit(address(choices), { ...options, saved: saved && savedOf(saved), refuse: refusal });
    const lines = [location.hash];
    const look = () => [location.search + decodeURIComponent(location.hash), `focus: ${document.activeElement?.attributes.id ?? document.activeElement?.attributes["aria-label"] ?? document.activeElement?.textContent ?? ""}`, `tour left: ${localStorage.getItem("explorer-tour-left") ?? ""}`, `ticks: ${Boolean(globalThis.tick)}`, `later: ${globalThis.later.map(({ after }) => after).join(" ")}`, ...outline(document.documentElement)[0].map((line) => line.trimStart())];
    let before = look();
    for (const [words, act] of acts) {
      asked.length = acting.prevented = noted.length = 0;
      act();
      for (let i = 0; i < 20; i += 1) await null;
      const busy = document.querySelectorAll("[aria-busy=true]").map(({ tag, attributes, parent }) => attributes.id ?? (attributes.class || `${tag} in ${parent.attributes.id ?? parent.tag}`));
      const waits = document.querySelectorAll("[role=status]").filter((one) => !one.hidden && /…/.test(one.textContent)).map((one) => one.textContent);
      await settle();
      const after = look(), count = (list) => list.reduce((counts, line) => counts.set(line, (counts.get(line) ?? 0) + 1), new Map());
      const [was, is] = [count(before), count(after)];
      lines.push(`=== ${words}`, ...(acting.prevented ? ["(and not what a browser does)"] : []), ...(busy.length ? [`busy: ${[...busy, ...waits].join(", ")}`] : []), ...asked.map(([request, { trace: _, ...body }]) => `? ${request} ${JSON.stringify(body)}`), ...errors.splice(0), ...new Set(noted.map((what) => `! ${what}`)));
      const gone = [...was.keys()].filter((line) => !is.has(line)), come = [...is].filter(([line, n]) => n !== was.get(line)).map(([line, n]) => line + (was.has(line) ? ` (${was.get(line)} → ${n})` : ""));
      lines.push(...few("-", gone), ...few("+", come));
      before = after;
    }
    compare(lines, `${FOLDER}/${name}.txt`);
  });
}

test("the tour begins and ends where the browser keeps nothing", async () => {
  const { errors } = await visit("", { tour: true, blocked: true }), tour = () => [/tour=\d/.exec(location.hash)?.[0], ...errors], begun = tour();
  named("Leave the tour").click();
  assert.deepEqual([begun, tour()], [["tour=1"], [undefined]]);
});

test("what is said in situations that are seldom met", async () => {
  const drawn = ["drawings", "stories"].flatMap((folder) => readdirSync(`${FOLDER}/../${folder}`).map((file) => readFileSync(`${FOLDER}/../${folder}/${file}`, "utf8"))).join("");
  compare(await saidIn(SELDOM, "", (text) => /[a-z]{2}/i.test(text) && !/ → |^(Reads|Writes) \S+: /.test(text) && !drawn.includes(text)), `${process.env.EXPLORER_TESTS}/english.txt`);
});

const HEADS = `${OWN}/multi_head_attention`, loss = { kind: "loss" };

/** Choices of which the first is answered after the second: where the page is, the first, the second, and what is asked for the first. */
const OVERTAKEN = [
  ...["translate", "trace"].map((late) => [{ view: "attention" }, { text: "small" }, { text: "small words" }, late, ({ text }) => text === "small"]),
  ...["translate", "trace"].map((late) => [{ view: "edit", text: "small" }, { edits: [OFF] }, { edits: [{ ...OFF, head: 0 }] }, late, ({ edits }) => edits[0]?.head === 1]),
  [{ view: "edit", text: "small", edits: [{ kind: "temperature", step: MULTI, value: 2 }] }, { text: "two" }, { text: "small words" }, "translate", ({ text, edits }) => text === "two" && !edits.length],
  [{ view: "edit", text: "small" }, { edits: [OFF], prefix: [4] }, { edits: [], prefix: [] }, "translate", ({ edits, prefix }) => prefix.length > 2 || !edits.length],
  [{ side: "backward" }, { objective: { kind: "log_probability", position: 0, token: 4 } }, { objective: loss }, "trace", ({ objective }) => objective.kind !== "loss"],
  [{ view: "training" }, { text: "small" }, { text: "small words" }, "training", ({ text }) => text === "small"],
  [{ view: "training", text: "small" }, { checkpoint: 10 }, { checkpoint: null }, "trace", ({ checkpoint }) => checkpoint === 10],
  [{ view: "block" }, { block: MULTI, value: WEIGHTS }, { block: MULTI, value: `${MULTI}:multi_head_attention.q` }, "tensor", ({ key }) => key === WEIGHTS],
  [{ view: "walk" }, { walk: 3 }, { walk: 4 }, "tensor", ({ key }) => key === explorer.trace.steps[3].key],
  [{ view: "attention", block: CROSS }, { block: OWN }, { block: CROSS }, "tensor", ({ key }) => key.startsWith(HEADS)],
  [{ view: "attention", block: CROSS }, { side: "backward" }, { side: "forward" }, "tensor", ({ key }) => key.includes("d_weights")],
  [{}, { entry: { key: STEP, index: [0, 0, 1] } }, { entry: { key: STEP, index: [0, 1, 2] } }, "difference", ({ index }) => index[1] === 0],
  [{}, { entry: { key: STEP, index: [0, 0, 1] } }, { entry: null }, "difference", () => true],
  [{}, { entry: { key: STEP, index: [0, 0, 1] } }, { entry: { key: `${MULTI}:multi_head_attention.mask`, index: [0, 0, 0, 1] } }, "difference", () => true],
];

test("an answer that has been overtaken changes nothing", async () => {
  for (const [place, first, second, what, slow] of OVERTAKEN) {
    const seen = [];
    for (const turns of [0, 12]) {
      const waits = [], { app } = await visit(address(place), { late: (name, body) => (name === what && slow(body) && waits.push(name) ? turns : 0) });
      app.set(first);
      if (turns) for (let i = 0; i < 4; i += 1) await new Promise(setImmediate);
      else await settle();
      app.set(second);
      await settle();
      assert.ok(waits.length, JSON.stringify([place, first, what]));
      seen.push([location.hash, ...outline(document.body)[0]]);
    }
    assert.deepEqual(seen[1].filter((line) => !seen[0].includes(line)), [], JSON.stringify([place, first, second, what]));
    assert.deepEqual(seen[0].filter((line) => !seen[1].includes(line)), [], JSON.stringify([place, first, second, what]));
  }
});

/** Choices of each kind, those that an address could lose among them: nothing, 0, and signs that separate. */
const CHOICES = {
  text: ["a & b = c", "x#y%20+z?", "문장", "'\"<b>", "two  words"], beam: [2, 10], alpha: [0, 0.25], prefix: [[4], [4, 0, 5]], target: [[5, 2]], checkpoint: [0, 20], side: ["backward"], tour: [3], head: [0, 2], word: [0, 5], walk: [7],
  objective: [{ kind: "log_probability", position: 0, token: 0 }, { kind: "log_probability", position: 2, token: 5 }, { kind: "difference", position: 0, token: 4, other: 0 }], edits: [[OFF], [{ kind: "set_entry", key: "a&b", index: [0, 1], value: -1e-7 }, OFF]],
  block: [CROSS, MULTI, "/linear"], view: ["block", "walk", "edit", "training"], value: [`d:${WEIGHTS}`, "a@b,c"], entry: [{ key: "/cross_entropy", index: [] }, { key: "b1", index: [0] }, { key: `d:${WEIGHTS}`, index: [0, 1, 2, 0] }, { key: "a@b", index: [3, 0] }],
};

test("an address leads back to what was chosen, and to nothing else", async () => {
  const { app } = await visit(""), start = { ...app.state, view: "attention" }, seen = new Set();
  app.load = () => undefined;
  const every = Object.fromEntries(Object.entries(CHOICES).map(([name, values]) => [name, values.at(-1)]));
  assert.deepEqual(Object.keys(CHOICES).sort(), Object.keys(app.state).sort());
  for (const choice of [...Object.entries(CHOICES).flatMap(([name, values]) => values.map((value) => ({ [name]: value }))), every]) {
    app.set({ ...start, ...choice });
    const { hash } = location;
    app.set(start);
    assert.notEqual(location.hash, hash);
    location.hash = hash;
    document.dispatchEvent({ type: "hashchange" });
    assert.deepEqual({ ...app.state }, { ...start, ...choice }, hash);
    seen.add(hash);
  }
  assert.equal(seen.size, Object.values(CHOICES).reduce((n, values) => n + values.length, 1));
});

test("steps are those of the trace that is loaded, at a place or inside it", async () => {
  const { app, asked } = await visit("");
  for (const change of [{}, { edits: [OFF] }, { text: "small" }, { edits: [] }]) {
    app.set(change);
    await settle();
    for (const step of app.trace.steps) assert.equal(app.step(step.key), step);
    assert.deepEqual([app.step("none"), app.step(CROSS)], [undefined, undefined]);
    app.tensor(STEP, { rows: [0, 1] });
    assert.deepEqual(asked.at(-1), ["tensor", { trace: app.trace.id, key: STEP, rows: [0, 1] }]);
    await settle();
  }
  app.trace = { ...app.trace, steps: ["", "a", "a.b", "a.b.c", "a.bc", "ab", "a.b"].map((place, key) => ({ place, key })) };
  const keys = (...given) => app.stepsAt(...given).map(({ key }) => key);
  assert.deepEqual([keys(""), keys("a"), keys("a.b"), keys("b"), keys("", true), keys("a", true), keys("a.b", true), keys("a.b.c", true)], [[0], [1], [2, 6], [], [0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 6], [2, 3, 6], [3]]);
});

test("each story is told", () => {
  assert.deepEqual(readdirSync(FOLDER).sort(), Object.keys(STORIES).map((name) => `${name}.txt`).sort());
});
