// What somebody does on the page.

import { difference, savedOf } from "./page_answers.js";
import { resize } from "./page_document.js";
import { address, settle, visit } from "./page_visit.js";

/** What the server refuses now, how often a listener has prevented what a browser does, and what translates the names of buttons. */
export const acting = { refusing: null, prevented: 0, t: (text) => text };

/** Return what `serve` asks about each request. */
export const refusal = (name, body) => (typeof acting.refusing === "function" ? acting.refusing(name, body) : acting.refusing);

export const $ = (selector, n = 0) => {
  const [first, ...inner] = selector.split(" ");
  const start = first.startsWith("#") ? [document.getElementById(first.slice(1))] : document.querySelectorAll(first);
  return inner.reduce((found, one) => found.flatMap((node) => node.querySelectorAll(one)), start).at(n);
};
export const named = (text, root = document.body) => root.querySelectorAll("*").find((one) => (one.tag === "button" || one.attributes.role) && [one.textContent, one.attributes["aria-label"]].includes(acting.t(text)));
export const event = (target, more = {}) => ({ target, preventDefault: () => { acting.prevented += 1; }, ...more });

// Each returns [what is done in words, a function that does it].
export const click = (selector, n = 0) => [`click ${selector}${n ? ` ${n}` : ""}`, () => $(selector, n).click()];
export const press = (text) => [`press “${text}”`, () => named(text).click()];
export const key = (selector, name, n = 0) => [`key ${name} at ${selector}`, () => $(selector, n).listeners.keydown(event($(selector, n), { key: name }))];
export const give = (selector, value, kind = "input", n = 0) => [`${kind} “${value}” at ${selector}`, () => {
  $(selector, n).value = value;
  return $(selector, n).listeners[kind]?.(event($(selector, n)));
}];
export const hear = (name, selector, more = {}, n = 0) => [`${name} ${JSON.stringify(more)} at ${selector}${n ? ` ${n}` : ""}`, () => $(selector, n).listeners[name](event($(selector, n), more))];
export const tick = ["tick", () => globalThis.tick?.()], later = ["what waits is done", () => globalThis.later.splice(0).forEach(({ act }) => act())];
export const go = (choices) => [`address ${JSON.stringify(choices)}`, () => { location.hash = `#${address(choices)}`; document.dispatchEvent({ type: "hashchange" }); }];
export const set = (choices) => [`set ${JSON.stringify(choices)}`, () => { explorer.set(choices); }];
export const wide = (width) => [`width ${width}`, () => resize(width)];

export const refuse = (answer) => [`the server refuses: ${JSON.stringify(answer)}`, () => { acting.refusing = answer; }];

const CROSS = "decoder.layers.0.cross_attention", MULTI = `${CROSS}/multi_head_attention`, WEIGHTS = `${MULTI}:scaled_dot_product_attention.weights`;
const OWN = "encoder.layers.0.self_attention", FEED = "decoder.layers.0.feed_forward", STEP = `${FEED}/feed_forward`, OFF = { kind: "head_off", step: MULTI, head: 1 };
const edit = (key, index, value) => [give("#edit input", key), give("#edit input", index, "input", 1), give("#edit input", value, "input", 2), hear("submit", ".edit-form")];
const compare = (key, index) => [give("#entry input", key), give("#entry input", index, "input", 1), hear("submit", ".entry-form")];
const long = (n) => Array.from({ length: n }, (_, i) => 4 + i % 3);

/** Return what changes an answer before the page has it. */
const altered = (name, change) => ({ alter: (asked, answer) => (asked === name ? change(answer) ?? answer : answer) });
const curve = (gradient, estimate, relative_error, ...errors) => ({ ...difference, gradient, estimate, relative_error, curve: errors.map((error, i) => [10 ** -(i + 1), estimate, error]) });
const CURVES = [curve(0, 5e-13, 1, 0.1), curve(1e-9, 1.5e-9, 1e-9, 1e-9), curve(1, 1.1, 0.3, 0.3, 0.3, 1e-9, 1e-8), curve(1, 1.1, 1.1e-5, 1e-2, 1e-5, 1e-4), curve(1, 2, 0.5, 0.5, 0.6), curve(1, 2, 0.5, 0.5, 0.01), curve(1, 1, 1e-9, 0.3, 0.3, 1e-9)];

/** Leave the weights of attention out of a trace. */
function blind({ steps }) {
  for (const step of steps) for (const side of ["forward", "backward"]) step[side] = step[side].filter(({ name }) => !/weights/.test(name));
}

/** What a file holds of a large model: of one value the first rows and some columns. */
function partly() {
  const saved = savedOf(), [{ tensors, arrays }] = saved.sentences[0].traces;
  Object.assign(arrays[tensors[STEP].array], { rows: [0, 1], columns: [0, 2, 3] });
  return { ...saved, left_out: "Of a model with more than 9 parameters or 7 tokens, the file holds the first 5 rows and columns of each matrix. Along a vocabulary, it holds the tokens of the text and the best alternatives to them. Statistics are those of whole matrices." };
}

/** Situations that are seldom met, each an address, what is special and what is done: what is said in them stands in `english.txt`. */
export const SELDOM = [
  [{ view: "attention", block: OWN, entry: `${OWN}/multi_head_attention:scaled_dot_product_attention.weights@0,1,2,3` }, {}, [click(".head-picture"), click(".head-picture"), click(".word", 1)]],
  [{ view: "attention" }, altered("trace", blind)],
  [{ view: "attention" }, { trace: { source: long(45), target: long(42) } }], [{ tour: "1" }, altered("trace", blind)],
  [{ view: "block", block: CROSS, value: `${CROSS}.w_in` }, {}, [set({ value: "decoder.layers.0.residual1.layer_norm/layer_norm" }), set({ side: "backward", value: "d:decoder.layers.0.residual1.layer_norm/layer_norm" })]],
  [{ view: "block", block: "source_embedding/add" }, altered("trace", (trace) => {
    const scaled = "source_embedding/multiply", left = ({ key }) => key !== scaled;
    trace.steps = trace.steps.filter(left), trace.walk = trace.walk.filter(left);
    for (const { inputs } of trace.steps) for (const input of inputs) if (input.key === scaled) input.key = "source_embedding/embedding";
  })],
  [{ view: "block", block: FEED, side: "backward" }, altered("trace", ({ steps }) => { for (const step of steps) if (step.place === FEED) step.gradient = null; })],
  [{ view: "block", block: CROSS }, { refuse: (name) => (name === "tensor" ? [400, { error: "tensor: found `x`" }] : null) }],
  [{ view: "block", block: "decoder.final_norm" }],
  [{ view: "block" }, { refuse: (name) => (name === "trace" ? [400, { error: "trace: found `x`" }] : null) }, [set({ text: "small words" }), set({ side: "backward" })]],
  [{ view: "walk" }, altered("trace", ({ steps }) => { steps.find(({ key }) => key === "/transpose").inputs = []; }), [press("Play"), ...[21, 22].map((walk) => set({ walk })), ...[0, 4, 11].map((walk) => set({ walk, side: "backward" }))]],
  [{ view: "edit" }, {}, [...edit("x", "1", "1"), ...edit(`${FEED}.b1`, "9", "1"), ...edit("/cross_entropy", "1", "1"), ...edit(`${FEED}.b1`, "1", "x"), give("#edit input", "1", "input", 2), hear("submit", ".edit-form"),
    give("#edit select", "temperature", "change"), give("#edit input", "0", "input", 2), hear("submit", ".edit-form"), set({ edits: [{ kind: "temperature", step: MULTI, value: 2 }, OFF] })]],
  [{ view: "edit", prefix: "4" }],
  [{ view: "edit", edits: [OFF], side: "backward", objective: "log_probability:1:5" }, altered("trace", (trace) => { if (trace.objective.kind === "loss") trace.prediction = null; }), [set({ objective: { kind: "difference", position: 0, token: 4, other: 6 } }), set({ objective: { kind: "loss" } })]],
  [{ entry: `${STEP}@0,1,2` }, altered("difference", () => CURVES[acting.turn++]), CURVES.map((_, i) => set({ entry: { key: STEP, index: [0, 1, i % 4] } }))],
  [{ entry: "decoder.layers.0.residual1.layer_norm/layer_norm:layer_norm.d_x@0,0,1" }, {}, [...compare(STEP, "0, 9, 9"), ...compare("none", "0"), ...compare(`${FEED}.b1`, "9"), ...compare("/cross_entropy", "1")]],
  [{ view: "training" }, altered("training", (answer) => { Object.assign(answer, { attention: [], loss: answer.steps.map(() => null) }); }), [click("#training button")]],
  [{ view: "training" }, { alter: (name, answer) => ({ ...answer, ...(name === "translate" ? { text: "" } : name === "training" ? { translations: null } : {}) }) }], [{ view: "training" }, { training: { steps: [10] } }], [{ view: "training" }, { training: { steps: [] } }],
  [{ view: "training" }, {}, [give("#training input", "1")]],
  [{ beam: "2" }, { ...altered("translate", (answer) => { answer.finished = false; }), model: { search: { alpha: 1.25, penalty: "length" } } }, [click(".tree-drawing [data-id]")]],
  [{ text: "a" }, {}, [refuse((name) => (name === "translate" ? [500, {}] : null)), set({ text: "b" }), refuse("stopped"), set({ text: "c" })]],
  [{ view: "block", block: STEP }, { saved: partly() }], [{}, { saved: savedOf({ many: true }) }, [set({ text: "two" })]],
  [{}, { saved: { ...savedOf(), sentences: [{ text: "two small words", file: "p-sentences/01.js" }] } }, [["a script is missing", () => document.head.querySelectorAll("script").at(-1).onerror()]]],
];

/** Return all texts that can be read or heard in some situations, those that pass a test. */
export async function saidIn(situations, search, fits) {
  const said = new Set();
  for (const [choices, options = {}, acts = []] of situations) {
    Object.assign(acting, { refusing: null, turn: 0 });
    const { app, errors } = await visit(address(choices), { search, refuse: refusal, ...options }), { say } = app;
    app.say = (text) => { said.add(text), say(text); };
    for (const [, act] of [[], ...acts]) {
      act?.();
      for (const wait of [async () => { for (let i = 0; i < 20; i += 1) await null; }, settle]) {
        await wait();
        for (const error of errors) said.add(error);
        for (const details of document.querySelectorAll("details")) Object.assign(details, { open: true }).listeners.toggle?.();
        for (const node of document.querySelectorAll("*")) {
          if (node.tag !== "script") for (const text of [...["aria-label", "aria-roledescription", "aria-valuetext", "title", "placeholder"].map((name) => node.attributes[name]), node.title, ...node.parts.map((part) => part.data)]) if (text) said.add(text.trim());
        }
      }
    }
  }
  return [...said].filter(fits);
}
