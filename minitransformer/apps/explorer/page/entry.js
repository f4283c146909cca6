// One entry of a tensor: its value, its gradient, and the central difference computed now.

import { chart } from "./chart.js";
import { el, number, shapeText, withCode } from "./dom.js";
import { draftOf, entryOf, forwardKey, isConstant, readIndex, shapesOf } from "./keys.js";

const LEAST = 1e-17; // a logarithmic axis has no 0
const AGREE = 1e-5; // the largest relative error at which two numbers agree

export function view(app, root) {
  const key = el("input", { list: "entry-keys", "aria-label": "Tensor", required: true, class: "mono", spellcheck: "false" });
  const keys = el("datalist", { id: "entry-keys" });
  const index = el("input", { "aria-label": "Index", class: "mono", placeholder: "0, 0, 0" });
  const hint = el("span", { class: "muted small" });
  const refusal = el("p", { class: "refusal", role: "alert" });
  const answer = el("div", { class: "entry-answer", "aria-live": "polite" });
  const form = el("form", { class: "entry-form", onsubmit: (event) => {
    event.preventDefault();
    try {
      const shape = shapes.get(forwardKey(key.value, shapes));
      if (!shape) throw new Error(`Found no tensor ${key.value}; choose one from the list.`);
      refusal.textContent = "";
      app.set({ entry: { key: key.value, index: readIndex(index.value, shape, key.value) } });
    } catch (error) {
      refusal.replaceChildren(...withCode(error.message));
    }
  } },
  el("label", {}, "Tensor ", key, keys), el("label", {}, "Index ", index), hint,
  el("button", { type: "submit" }, "Compare"));
  const held = el("select", { "aria-label": "Entries in this file", onchange: () => {
    if (held.value) {
      const { key: name, index: at } = app.store.entries(app.trace.id)[Number(held.value)];
      app.set({ entry: { key: name, index: at } });
    }
  } });
  const close = el("button", { type: "button", class: "quiet", onclick: () => app.set({ entry: null }) }, "Close");
  root.replaceChildren(el("div", { class: "entry-head" }, el("h2", {}, "One entry"), close), answer, el("p", { class: "muted small" },
    "Point at an entry of a picture, or type its index. The central difference is (f(x + h) − f(x − h)) / 2h."), form, held, refusal);
  let shapes = new Map(), asked = 0;

  key.addEventListener("input", showHint);
  function showHint() {
    const shape = shapes.get(forwardKey(key.value, shapes));
    hint.textContent = shape ? shapeText(shape) : "";
    index.placeholder = shape ? shape.map(() => 0).join(", ") : "0, 0, 0";
  }

  function change(asks, at) {
    const draft = draftOf(app.trace, { key: asks, index: at });
    return draft && app.store.live
      ? el("button", { type: "button", onclick: () => app.set({ view: "edit", draft: { ...draft, asked: performance.now() } }) }, "Change this entry") : "";
  }

  /** Return the value and the gradient of an entry as they are in the file. */
  async function lookUp(asks, at) {
    const found = await Promise.allSettled([asks, `d:${asks}`].map((name) => entryOf(app, name, at)));
    return [el("p", { class: "mono entry-name" }, `${asks}[${at.join(", ")}]`), el("dl", { class: "numbers" },
      ["value", "gradient"].map((name, i) => [el("dt", {}, name), el("dd", { class: "figures" }, number(found[i].value, 7))]))];
  }

  return async function draw(changed) {
    if (!app.trace) return;
    if (changed.has("trace") || !shapes.size) {
      shapes = shapesOf(app.trace);
      const entries = app.store.entries(app.trace.id);
      held.hidden = !entries?.length;
      held.replaceChildren(el("option", { value: "" }, "Differences in this file …"),
        ...(entries ?? []).map((one, i) => el("option", { value: i }, `${one.key}[${one.index.join(", ")}]`)));
      keys.replaceChildren(...[...shapes.keys()].map((name) => el("option", { value: name })));
    } else if (!changed.has("entry") && !changed.has("theme")) return;
    const { entry } = app.state, turn = ++asked;
    close.hidden = !entry;
    if (!entry) return answer.replaceChildren();
    key.value = entry.key;
    index.value = entry.index.join(", ");
    showHint();
    const asks = forwardKey(entry.key, shapes);
    refusal.textContent = "";
    if (!shapes.has(asks)) {
      return answer.replaceChildren(el("p", {}, `${entry.key} is a value of the backward pass. It has no counterpart in the forward ` +
        "pass to which h could be added, so there is no difference to compute."));
    }
    if (isConstant(app.trace, asks)) {
      return answer.replaceChildren(el("p", {}, `${asks} is a constant input. The backward pass computes no gradient of it.`));
    }
    answer.setAttribute("aria-busy", "true");
    try {
      const difference = await app.guard(app.store.difference({ trace: app.trace.id, key: asks, index: entry.index }));
      if (turn === asked) answer.replaceChildren(...comparison(asks, entry.index, difference), change(asks, entry.index));
    } catch (error) {
      if (turn !== asked) return;
      if (app.store.live) {
        answer.replaceChildren();
        refusal.replaceChildren(...withCode(error.message));
      } else answer.replaceChildren(...await lookUp(asks, entry.index), el("p", { class: "muted small" }, withCode(error.message)));
    } finally {
      if (turn === asked) answer.removeAttribute("aria-busy");
    }
  };
}

function comparison(key, index, difference) {
  const { value, gradient, estimate, relative_error: error, curve } = difference;
  const row = (name, x, digits) => [el("dt", {}, name), el("dd", { class: "figures" }, number(x, digits))];
  const verdict = judge(difference);
  const points = curve.map(([h, , e]) => [h, Math.max(Math.abs(e), LEAST)]);
  return [
    el("p", { class: "mono entry-name" }, `${key}[${index.join(", ")}]`),
    el("dl", { class: "numbers" }, row("value", value, 7), row("gradient", gradient, 9), row("central difference", estimate, 9),
      row("relative error", error, 3)),
    el("p", { class: `verdict ${verdict.kind}` }, verdict.text),
    el("figure", {}, chart({
      lines: [{ name: "error", points, className: "line-0" }], logX: true, logY: true, dots: true, xName: "step size h", yName: "error (relative)",
      label: `Error over the step size: ${points.map(([h, e]) => `h ${number(h, 2)}, error ${number(e, 2)}`).join("; ")}`,
    }), el("figcaption", { class: "muted small" }, "On the left rounding, which falls as 1/h; on the right the truncation of the difference, which rises with h²." +
      (curve.some(([, , e]) => Math.abs(e) < LEAST) ? ` An error of 0 is drawn at ${number(LEAST, 2)}.` : ""))),
    el("details", {}, el("summary", {}, "The curve as a table"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["h", "Central difference", "Error"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, curve.map(([h, e, off]) => el("tr", {}, [[h, 2], [e, 9], [off, 3]].map(
        ([x, digits]) => el("td", { class: "figures" }, number(x, digits))))))))),
  ];
}

/** Return {kind, text}: whether gradient and difference agree, and if not what the curve says about the reason. */
export function judge({ gradient, estimate, relative_error: error, curve }) {
  const scale = Math.max(Math.abs(gradient), Math.abs(estimate));
  if (scale < 1e-12) return { kind: "good", text: "Both are 0 up to rounding. A relative error says nothing here." };
  const steps = curve.map(([h, , e]) => ({ h, error: Math.abs(e) })).sort((a, b) => b.h - a.h);
  const best = steps.reduce((a, b) => (b.error < a.error ? b : a));
  const jump = kinkOf(steps);
  if (error <= AGREE) {
    const small = Math.abs(gradient - estimate) > AGREE * scale
      ? " The gradient is so small that rounding limits the comparison; the error is relative to the rounding error." : "";
    const kink = jump ? ` At h = ${number(jump.h, 2)} the error jumps, as where a ReLU switches between x − h and x + h.` : "";
    return { kind: "good", text: `They agree: relative error ${number(error, 2)}.${small}${kink}` };
  }
  const there = `At h = ${number(best.h, 2)} the two agree: relative error ${number(best.error, 2)}.`;
  if (jump && best.error <= AGREE) {
    return { kind: "warn", text: `A kink lies near: at h = ${number(jump.h, 2)} a ReLU switches between x − h and x + h, so the difference is ` +
      `no derivative. ${there}` };
  }
  if (best.error <= AGREE) return { kind: "warn", text: `The step size matters, and rounding hides the best one. ${there}` };
  return { kind: "bad", text: steps.every((step) => step.error < 3 * best.error)
    ? "The error is the same at every step size. The entry lies exactly on a kink, or its gradient is wrong."
    : "Neither a kink nor rounding explains this error. Check the backward pass." };
}

/** Return the smallest step size beyond a jump of the error that no power of h explains, or undefined. */
function kinkOf(steps) {
  for (let i = steps.length - 2; i >= 0; i -= 1) {
    const decades = Math.log10(steps[i].h / steps[i + 1].h), next = Math.max(steps[i + 1].error, 1e-12);
    if (steps[i].error > AGREE && steps[i].error > next * 10 ** (3 * decades + 0.5)) return steps[i];
  }
  return undefined;
}
