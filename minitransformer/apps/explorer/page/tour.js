// A tour in five steps: each chooses what is to be seen, and says what to look at and what to do.

import { headsOff, meanRow, strongestHead, weightsOf } from "./attention.js";
import { el, number, withCode } from "./dom.js";
import { TOUR } from "./words.js";

const STEPS = ["look", "number", "gradient", "off", "learn"];

export function view(app, root) {
  const count = el("p", { class: "tour-count small" }), title = el("h2", { tabindex: -1 }), text = el("p");
  const back = el("button", { type: "button", onclick: () => go(app.state.tour - 1) }, TOUR.back);
  const next = el("button", { type: "button", class: "primary", onclick: () => go(app.state.tour + 1) });
  const extra = el("button", { type: "button", hidden: true, onclick: () => switchAll() });
  const leave = el("button", { type: "button", class: "quiet", onclick: () => go(0) }, TOUR.leave);
  const card = [el("div", { class: "tour-text" }, count, title, text), el("div", { class: "line-up" }, extra, back, next, leave)];
  const start = document.getElementById("start-tour");
  start.addEventListener("click", () => go(1));
  let taken = 0;

  async function go(n) {
    const to = n > STEPS.length ? 0 : n;
    if (!to) remember();
    const { edits } = app.state;
    const resets = STEPS[app.state.tour - 1] === "off" && edits.length ? { edits: edits.filter(({ kind }) => kind !== "head_off") } : {};
    app.set({ tour: to, ...resets });
    if (to) title.focus({ preventScroll: true });
    else start.focus();
  }

  function switchAll() {
    const step = attentionOf(app);
    const all = Array.from({ length: weightsOf(step, "forward").shape[1] }, (_, head) => ({ kind: "head_off", step: step.key, head }));
    const others = app.state.edits.filter((edit) => edit.kind !== "head_off" || edit.step !== step.key);
    app.set({ edits: headsOff(app, step).length ? others : [...others, ...all] });
  }

  return async function draw(changed) {
    const { tour } = app.state, name = STEPS[tour - 1];
    if (app.fresh) {
      app.fresh = false;
      if (!wasLeft()) return app.set({ tour: 1 });
    }
    start.hidden = Boolean(name);
    if (!name) {
      taken = 0;
      return root.replaceChildren();
    }
    if (!app.trace || app.loading) return;
    const step = attentionOf(app);
    if (!step) return;
    const fresh = taken !== tour;
    taken = tour;
    const place = await strongest(app, step);
    if (app.state.tour !== tour) return;
    if (!root.contains(title)) root.replaceChildren(...card);
    count.textContent = TOUR.count(tour, STEPS.length);
    back.hidden = tour === 1;
    leave.hidden = tour === STEPS.length;
    next.textContent = tour === STEPS.length ? TOUR.done : TOUR.next;
    const { key, q, k, head, weight } = place, read = readBy(app, step)[k];
    const words = TOUR[name];
    title.textContent = words.title(app.trace.target_out[q].text);
    const said = { look: () => words.text(app.model.parameters.toLocaleString("en")), number: () => words.text(number(weight, 2), head + 1, read.text),
      off: () => (app.store.live ? words.text() : words.saved) }[name]?.() ?? words.text();
    text.replaceChildren(...withCode(said));
    extra.hidden = name !== "off" || !app.store.live;
    extra.textContent = headsOff(app, step).length ? TOUR.off.reset : TOUR.off.all;
    if (!fresh) return;
    const at = [0, head, q, k], choices = { block: step.place, entry: null, value: null, side: "forward", word: q, head };
    if (name === "look" || name === "off") app.set({ ...choices, head: null, view: "attention" });
    else if (name === "number") app.set({ ...choices, view: "block", value: key });
    else if (name === "learn") app.set({ ...choices, view: "training" });
    else app.set({ ...choices, view: "block", side: "backward", ...gradientAt(app, step, at) });
  };
}

/** Return the attention of the tour: the last one to the source, or of a decoder alone the last one. */
function attentionOf(app) {
  const all = app.trace.steps.filter((step) => weightsOf(step, "forward"));
  return all.findLast(({ place }) => place.includes("cross")) ?? all.at(-1);
}

/** Return the tokens that an attention reads. */
function readBy(app, step) {
  return app.trace[step.place.includes("cross") ? "source" : "target_in"];
}

/** Return the word of the tour, and the head and key with the largest weight there: a word that looks at one place, far from its own. */
async function strongest(app, step) {
  const { key, shape } = weightsOf(step, "forward"), [, n, , columns] = shape, read = readBy(app, step);
  const heads = await Promise.all(Array.from({ length: n }, (_, h) => app.tensor(key, { at: [0, h] })));
  const scores = app.trace.target_out.map(({ text }, i) => (/^</.test(text) ? -1
    : Math.max(...meanRow(heads, i, columns).map((weight, k) => (/^\p{L}/u.test(read[k].text) ? weight * (1 + 0.4 * Math.min(Math.abs(k - i), 3)) : 0)))));
  const q = scores.indexOf(Math.max(...scores));
  const head = strongestHead(heads, q, shape), row = heads[head].values.subarray(q * columns, (q + 1) * columns);
  const weight = Math.max(...row);
  return { key, q, k: row.indexOf(weight), head, weight };
}

/** Return the entry whose gradient is compared: the weight, or in a file one whose difference it holds. */
function gradientAt(app, step, index) {
  const held = app.store.entries(app.trace.id), line = weightsOf(step, "backward");
  if (!held) return line ? { value: line.key, entry: { key: line.key, index } } : {};
  const found = held.find(({ key }) => key === step.key) ?? held.find(({ key }) => key.startsWith(step.place)) ?? held[0];
  return found ? { block: found.key, value: `d:${found.key}`, entry: { key: `d:${found.key}`, index: found.index } } : {};
}

const LEFT = "explorer-tour-left";

/** Keep in mind that the tour was left, where the browser allows it. */
function remember() {
  try { localStorage.setItem(LEFT, "yes"); } catch { /* a file may not */ }
}

/** Tell whether the tour was left before. */
function wasLeft() {
  try { return localStorage.getItem(LEFT) !== null; } catch { return false; }
}
