// One entry of a tensor: its value, its gradient, and the central difference computed now.

import { chart } from "./chart.js";
import { el, number, shapeText, withCode } from "./dom.js";
import { draftOf, entryOf, forwardKey, isConstant, readIndex, shapesOf } from "./keys.js";
import { t } from "./words.js";

const LEAST = 1e-17; // a logarithmic axis has no 0
const AGREE = 1e-5; // the largest relative error at which two numbers agree

export function view(app, root) {
  const key = el("input", { list: "entry-keys", "aria-label": t("Tensor"), required: true, class: "mono", spellcheck: "false" });
  const keys = el("datalist", { id: "entry-keys" });
  const index = el("input", { "aria-label": t("Index"), class: "mono", placeholder: "0, 0, 0" });
  const hint = el("span", { class: "muted small" });
  const refusal = el("p", { class: "refusal", role: "alert" });
  const answer = el("div", { class: "entry-answer", "aria-live": "polite" });
  const form = el("form", { class: "entry-form", onsubmit: (event) => {
    event.preventDefault();
    try {
      const shape = shapes.get(forwardKey(key.value, shapes));
      if (!shape) throw new Error(t("Found no tensor {key}; choose one from the list.", { key: key.value }));
      refusal.textContent = "";
      app.set({ entry: { key: key.value, index: readIndex(index.value, shape, key.value) } });
    } catch (error) {
      refusal.replaceChildren(...withCode(error.message));
    }
  } },
  el("label", {}, `${t("Tensor")} `, key, keys), el("label", {}, `${t("Index")} `, index), hint,
  el("button", { type: "submit" }, t("Compare")));
  const held = el("select", { "aria-label": t("Entries in this file"), onchange: () => {
    if (held.value) {
      const { key: name, index: at } = app.store.entries(app.trace.id)[Number(held.value)];
      app.set({ entry: { key: name, index: at } });
    }
  } });
  const close = el("button", { type: "button", class: "quiet", onclick: () => app.set({ entry: null }) }, t("Close"));
  root.replaceChildren(el("div", { class: "entry-head" }, el("h2", {}, t("One entry")), close), answer, el("p", { class: "muted small" },
    t("Point at an entry of a picture, or type its index. The central difference is (f(x + h) − f(x − h)) / 2h.")), form, held, refusal);
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
      ? el("button", { type: "button", onclick: () => app.set({ view: "edit", draft: { ...draft, asked: performance.now() } }) }, t("Change this entry")) : "";
  }

  /** Return the value and the gradient of an entry as they are in the file. */
  async function lookUp(asks, at) {
    const found = await Promise.allSettled([asks, `d:${asks}`].map((name) => entryOf(app, name, at)));
    return [el("p", { class: "mono entry-name" }, `${asks}[${at.join(", ")}]`), el("dl", { class: "numbers" },
      [t("value"), t("gradient")].map((name, i) => [el("dt", {}, name), el("dd", { class: "figures" }, number(found[i].value, 7))]))];
  }

  return async function draw(changed) {
    if (!app.trace) return;
    if (changed.has("trace") || !shapes.size) {
      shapes = shapesOf(app.trace);
      const entries = app.store.entries(app.trace.id);
      held.hidden = !entries?.length;
      held.replaceChildren(el("option", { value: "" }, t("Differences in this file …")),
        ...(entries ?? []).map((one, i) => el("option", { value: i }, `${one.key}[${one.index.join(", ")}]`)));
      keys.replaceChildren(...[...shapes.keys()].map((name) => el("option", { value: name })));
    } else if (!changed.has("entry") && !changed.has("theme")) return;
    const { entry } = app.state, turn = ++asked;
    answer.removeAttribute("aria-busy"); // what was asked before no longer matters
    close.hidden = !entry;
    if (!entry) return answer.replaceChildren();
    key.value = entry.key;
    index.value = entry.index.join(", ");
    showHint();
    const asks = forwardKey(entry.key, shapes);
    refusal.textContent = "";
    if (!shapes.has(asks)) {
      const backward = app.trace.steps.some((step) => step.backward.some((line) => line.key === entry.key));
      return answer.replaceChildren(el("p", {}, backward
        ? t("{key} is a value of the backward pass. It has no counterpart in the forward pass to which h could be added, so there is no difference to compute.", entry)
        : t("Found no tensor {key}; choose one from the list.", entry)));
    }
    if (isConstant(app.trace, asks)) {
      return answer.replaceChildren(el("p", {}, t("{key} is a constant input. The backward pass computes no gradient of it.", { key: asks })));
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
    el("dl", { class: "numbers" }, row(t("value"), value, 7), row(t("gradient"), gradient, 9), row(t("central difference"), estimate, 9),
      row(t("relative error"), error, 3)),
    el("p", { class: `verdict ${verdict.kind}` }, verdict.text),
    el("figure", {}, chart({
      lines: [{ name: t("error"), points, className: "line-0" }], logX: true, logY: true, dots: true, xName: t("step size h"), yName: t("error (relative)"),
      label: t("Error over the step size: {points}", { points: points.map(([h, e]) => t("h {h}, error {error}", { h: number(h, 2), error: number(e, 2) })).join("; ") }),
    }), el("figcaption", { class: "muted small" }, t("On the left rounding, which falls as 1/h; on the right the truncation of the difference, which rises with h².") +
      (curve.some(([, , e]) => Math.abs(e) < LEAST) ? ` ${t("An error of 0 is drawn at {least}.", { least: number(LEAST, 2) })}` : ""))),
    el("details", {}, el("summary", {}, t("The curve as a table")), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["h", t("Central difference"), t("Error")].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, curve.map(([h, e, off]) => el("tr", {}, [[h, 2], [e, 9], [off, 3]].map(
        ([x, digits]) => el("td", { class: "figures" }, number(x, digits))))))))),
  ];
}

/** Return {kind, text}: whether gradient and difference agree, and if not what the curve says about the reason. */
export function judge({ gradient, estimate, relative_error: error, curve }) {
  const scale = Math.max(Math.abs(gradient), Math.abs(estimate));
  if (scale < 1e-12) return { kind: "good", text: t("Both are 0 up to rounding. A relative error says nothing here.") };
  const steps = curve.map(([h, , e]) => ({ h, error: Math.abs(e) })).sort((a, b) => b.h - a.h);
  const best = steps.reduce((a, b) => (b.error < a.error ? b : a));
  const jump = kinkOf(steps);
  if (error <= AGREE) {
    const small = Math.abs(gradient - estimate) > AGREE * scale
      ? t("The gradient is so small that rounding limits the comparison; the error is relative to the rounding error.") : "";
    const kink = jump ? t("At h = {h} the error jumps, as where a ReLU switches between x − h and x + h.", { h: number(jump.h, 2) }) : "";
    return { kind: "good", text: [t("They agree: relative error {error}.", { error: number(error, 2) }), small, kink].filter(Boolean).join(" ") };
  }
  const there = t("At h = {h} the two agree: relative error {error}.", { h: number(best.h, 2), error: number(best.error, 2) });
  if (jump && best.error <= AGREE) {
    return { kind: "warn",
      text: `${t("A kink lies near: at h = {h} a ReLU switches between x − h and x + h, so the difference is no derivative.", { h: number(jump.h, 2) })} ${there}` };
  }
  if (best.error <= AGREE) return { kind: "warn", text: `${t("The step size matters, and rounding hides the best one.")} ${there}` };
  return { kind: "bad", text: steps.every((step) => step.error < 3 * best.error)
    ? t("The error is the same at every step size. The entry lies exactly on a kink, or its gradient is wrong.")
    : t("Neither a kink nor rounding explains this error. Check the backward pass.") };
}

/** Return the smallest step size beyond a jump of the error that no power of h explains, or undefined. */
function kinkOf(steps) {
  for (let i = steps.length - 2; i >= 0; i -= 1) {
    const decades = Math.log10(steps[i].h / steps[i + 1].h), next = Math.max(steps[i + 1].error, 1e-12);
    if (steps[i].error > AGREE && steps[i].error > next * 10 ** (3 * decades + 0.5)) return steps[i];
  }
  return undefined;
}
