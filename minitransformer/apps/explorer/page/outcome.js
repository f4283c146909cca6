// What follows from the changes in force: the translation and each token's probability, before and now, and what the
// gradient alone predicts.

import { el, number, percent } from "./dom.js";
import { isAlone } from "./labels.js";
import { objectiveName } from "./objective.js";
import { phrase, t } from "./words.js";

/** Return {element, draw}; draw() shows what is chosen, and nothing while nothing is changed. */
export function outcomeOf(app) {
  const element = el("div", { class: "outcome" });
  let shown = null;

  async function draw() {
    const { edits, prefix } = app.state, { trace, translation } = app;
    if (!edits.length && !prefix.length) {
      shown = null;
      return element.replaceChildren();
    }
    if (!trace || app.loading || shown === trace) return;
    shown = trace;
    const before = await old(app);
    if (!before || app.trace !== trace) return;
    const now = edits.length ? await probabilities(app, before) : null;
    if (app.trace !== trace) return;
    element.replaceChildren(translations(before, translation, separator(app)), now ? pairs(before, now) : "", edits.length ? prediction(app) : "");
  }
  return { element, draw };
}

/** Return what stands between two tokens; where characters are tokens, white space is one of them. */
export function separator(app) {
  return isAlone(app.model) ? "" : " ";
}

/** Return the translation with neither edits nor forced tokens. */
async function old(app) {
  const { text, beam, alpha, prefix, checkpoint } = app.state;
  if (!prefix.length) return app.unchanged;
  return app.guard(app.store.translate({ text, beam, alpha, prefix: [], edits: [], checkpoint }));
}

/** Return the tokens of a translation with their probabilities in the changed model; null if it cannot say. */
async function probabilities(app, before) {
  const { text, alpha, edits, checkpoint } = app.state, prefix = before.tokens.map(({ id }) => id);
  const answer = await app.guard(app.store.translate({ text, beam: 1, alpha, prefix, edits, checkpoint })).catch(() => null);
  return answer?.tokens.slice(0, prefix.length) ?? null;
}

function translations(before, after, between) {
  const kept = common(before.tokens.map(({ id }) => id), after.tokens.map(({ id }) => id));
  const words = (answer, side) => el("p", { class: "translation" }, answer.tokens.map(({ text }, i) => [
    kept[side].has(i) ? el("span", {}, text) : el("mark", {}, text), between]));
  const same = kept[0].size === before.tokens.length && kept[1].size === after.tokens.length;
  return el("section", { class: "side-by-side", "aria-label": t("What is written, before and now") },
    el("div", {}, el("h3", {}, t("Before")), words(before, 0)),
    el("div", {}, el("h3", {}, t("Now")), words(after, 1), same ? el("p", { class: "muted small" }, t("The same tokens.")) : null));
}

/** Return the places of a longest common subsequence in each of two lists. */
function common(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { found[0].add(i); found[1].add(j); i += 1; j += 1; }
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

/** Return the probability of each token that was written, before and now, as pairs of bars. */
function pairs(before, now) {
  const bar = (kind, { probability: p }) => el("span", { class: `pair-bar ${kind}` },
    el("span", { class: "pair-track" }, el("span", { class: "pair-fill", style: `inline-size: ${(100 * p).toFixed(1)}%` })), el("span", { class: "pair-number figures" }, percent(p)));
  return el("section", { "aria-label": t("Probability of each token, before and now") },
    el("h3", {}, phrase("Probability of each token, {before} and {now}", { before: el("span", { class: "pair-key before" }, t("before")), now: el("span", { class: "pair-key now" }, t("now")) })),
    el("ol", { class: "pairs" }, now.map((token, i) => el("li", {}, el("strong", {}, token.text),
      el("span", { class: "visually-hidden" }, ` ${t("before")} `), bar("before", before.tokens[i]),
      el("span", { class: "visually-hidden" }, ` ${t("now")} `), bar("now", token)))),
    el("p", { class: "muted small" }, t("Both models are given the tokens that were written before.")));
}

/** Show what the gradient alone predicts for the objective, beside what happens. */
function prediction(app) {
  const { trace } = app;
  if (!trace.prediction) return el("p", { class: "muted" }, t("There is no prediction for this change."));
  const [before, after, predicted] = ["before", "after", "first_order"].map((name) => trace.prediction[name] ?? NaN); // JSON has no NaN
  const rows = [[t("Predicted by the gradient"), predicted - before], [t("True change"), after - before]];
  const extent = Math.max(...rows.map(([, change]) => Math.abs(change) || 0)) || 1;
  const sign = (x) => (x > 0 ? `+${number(x)}` : number(x));
  return el("section", { "aria-label": t("First-order prediction") }, el("h3", {}, t("The objective")),
    el("p", { class: "muted small" }, t("The {objective}. The target is what was written before the change.", { objective: objectiveName(app) })),
    el("dl", { class: "numbers" }, el("dt", {}, t("before")), el("dd", { class: "figures" }, number(before, 6)),
      el("dt", {}, t("predicted (first order)")), el("dd", { class: "figures" }, number(predicted, 6)),
      el("dt", {}, t("now")), el("dd", { class: "figures" }, number(after, 6))),
    el("ul", { class: "changes" }, rows.map(([name, change]) => el("li", {}, el("span", {}, name),
      el("span", { class: "change-axis" }, el("span", { class: `change-bar ${change < 0 ? "below" : "above"}`,
        style: `inline-size: ${(50 * (Math.abs(change) || 0) / extent).toFixed(1)}%` })),
      el("span", { class: "figures" }, sign(change))))),
    el("p", { class: "muted small" },
      t("The prediction is the sum of gradient times change. It is accurate for small changes only: softmax, activations and normalisation are not linear.")));
}
