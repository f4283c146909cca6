// A slider over the checkpoints of a training run: attention, norms, and the translation at that point.

import { chart, chartKey } from "./chart.js";
import { el, number, withCode } from "./dom.js";
import { headsOf, matrix } from "./matrix.js";
import { tokensOf, weightsOf } from "./attention.js";
import { placeName, placeOf, weightsName } from "./labels.js";
import { t } from "./words.js";

const FEW = 4; // fewer checkpoints show little of a training
const PAUSE = 400; // milliseconds from one checkpoint to the next

export function view(app, root) {
  const slider = el("input", { type: "range", min: 0, step: 1, class: "checkpoint-slider", "aria-label": t("Checkpoint"), oninput: () => show() });
  const play = el("button", { type: "button", onclick: () => (timer ? stop() : start()) }, t("Play"));
  const step = el("output", { class: "figures" });
  const use = el("button", { type: "button", disabled: !app.store.live, onclick: () => app.set({ checkpoint: answer.steps[slider.value] }) },
    t("Explore this checkpoint"));
  const best = el("button", { type: "button", onclick: () => app.set({ checkpoint: null }) }, t("Back to the trained model"));
  const attention = el("select", { "aria-label": t("Attention"), onchange: () => load() });
  const shows = el("p", { class: "muted small" });
  const translation = el("p", { class: "translation", "aria-live": "polite" });
  const heads = el("div", { class: "head-row wide" });
  const norms = el("div", { class: "norms" });
  const refusal = el("p", { class: "refusal", role: "alert" });
  const body = el("div", { class: "training-body" },
    el("div", { class: "line-up" }, play, slider, step, app.store.live && [use, best]),
    shows, el("h3", {}, t("Written at this step")), translation,
    el("h3", {}, t("Attention")), el("label", {}, attention), heads, norms);
  body.hidden = true;
  const waiting = el("p", { class: "muted", role: "status", hidden: true }, t("Measuring the model at each checkpoint …"));
  const few = el("p");
  const empty = el("div", { hidden: true },
    few,
    el("pre", {}, "minitransformer train --save-every 30 --keep 1000"),
    el("p", { class: "muted small" },
      t("--save-every sets how many steps lie between checkpoints, --keep how many checkpoints stay. Of a model with up to two million weights, training keeps the weights at 20 steps or more without being told.")));
  root.replaceChildren(el("h2", {}, t("Training")), waiting, body, empty, refusal);
  const texts = new Map(), maps = new Map(); // translations by step, attention maps by place
  let answer = null, asked = "", timer = 0;

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = t("Play");
  }

  function start() {
    if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
    play.textContent = t("Stop");
    timer = setInterval(() => {
      if (root.hidden || Number(slider.value) >= Number(slider.max)) return stop();
      slider.value = Number(slider.value) + 1;
      show();
    }, PAUSE);
  }

  /** Ask for what is not here yet: the norms of all parameters, and the maps of the chosen attention. */
  async function load() {
    const { text } = app.state, { trace } = app, place = app.step(attention.value)?.place;
    const name = JSON.stringify([text, place]);
    if (name === asked) return;
    if (!app.store.live && app.model.checkpoints.length < 2) return advise(app.model.checkpoints.length); // the file holds no training
    asked = name;
    refusal.textContent = "";
    waiting.hidden = answer?.text === text;
    root.setAttribute("aria-busy", "true");
    try {
      const fresh = answer?.text !== text;
      const found = fresh ? { ...await ask(text, ""), text, tokensOf: (where) => tokensOf(trace, where) } : answer;
      if (asked !== name) return;
      if (fresh) begin(found);
      if (place !== undefined && answer.steps.length && !maps.has(place)) {
        keepMaps((await ask(text, place)).attention);
        if (asked !== name) return;
      }
      if (answer.steps.length) show();
    } catch (error) {
      if (asked !== name) return;
      asked = "";
      refusal.replaceChildren(...withCode(error.message));
    } finally {
      if (asked === name || !asked) waiting.hidden = true;
      root.removeAttribute("aria-busy");
    }
  }

  function ask(text, key) {
    return app.guard(app.store.training({ text, key }));
  }

  function begin(found) {
    answer = found;
    texts.clear();
    maps.clear();
    keepMaps(found.attention);
    slider.max = slider.value = found.steps.length - 1;
    body.hidden = !found.steps.length;
    advise(found.steps.length);
  }

  /** Say how to train with checkpoints where there are few. */
  function advise(n) {
    empty.hidden = n >= FEW;
    few.textContent = [n === 0 ? t("This run kept no checkpoints.") : t(n === 1 ? "This run kept one checkpoint." : "This run kept only {n} checkpoints.", { n }),
      t("To watch a model learn, train one that keeps more:")].join(" ");
  }

  function keepMaps(attentions) {
    for (const [place, list] of Map.groupBy(attentions, ({ key }) => placeOf(`${key}/`))) maps.set(place, list);
  }

  function show() {
    const i = Number(slider.value), at = answer.steps[i];
    step.textContent = t("step {n} of {all}", { n: at, all: answer.steps.at(-1) });
    slider.setAttribute("aria-valuetext", t("step {n}", { n: at }));
    use.disabled = !app.store.live || app.state.checkpoint === at;
    best.hidden = app.state.checkpoint === null;
    const loss = answer.loss?.[i], whole = app.state.checkpoint === null && app.state.objective.kind === "loss" ? app.trace.objective.value : null;
    const named = (weights, x) => (x === null || x === undefined ? weights : t("{weights}, with a loss of {loss}", { weights, loss: number(x) }));
    shows.textContent = t("Here: {here}. The other views show {others}.", { here: named(t("the weights after step {checkpoint}", { checkpoint: at }), loss), others: named(weightsName(app), whole) });
    showTranslation(at, i);
    showAttention(at);
    const open = [...norms.querySelectorAll("details")].map((details) => details.open);
    norms.replaceChildren(
      answer.loss ? lineChart(t("Loss of this text"), t("loss"), [{ name: t("loss"), points: answer.loss.map((loss, j) => [answer.steps[j], loss]) }], at) : "",
      normChart(t("Norms of the weights"), answer.norms, answer.steps, at), normChart(t("Norms of the gradients"), answer.gradient_norms, answer.steps, at));
    norms.querySelectorAll("details").forEach((details, j) => { details.open = open[j] ?? false; });
  }

  async function showTranslation(at, i) {
    const { text, alpha } = app.state;
    if (answer.translations) return translation.replaceChildren(answer.translations[i]);
    if (!app.store.live) return translation.replaceChildren(...withCode(app.store.refusal));
    if (!texts.has(at)) texts.set(at, app.store.translate({ text, beam: 1, alpha, prefix: [], edits: [], checkpoint: at }).then((found) => found.text));
    try {
      const found = await texts.get(at);
      if (answer.steps[slider.value] === at) translation.textContent = found || t("(empty)");
    } catch (error) {
      texts.delete(at);
      translation.textContent = error.message;
    }
  }

  function showAttention(at) {
    const place = app.step(attention.value)?.place ?? "";
    const known = maps.get(place) ?? [], one = known.findLast(({ checkpoint }) => checkpoint <= at) ?? known[0]; // of long texts some steps have none
    if (!one) return heads.replaceChildren(el("p", { class: "muted small" }, t("There are no maps of this attention here.")));
    const tokens = answer.tokensOf(place).map((texts, axis) => (texts.length === one.shape.at(axis - 2)
      ? texts : Array.from({ length: one.shape.at(axis - 2) }, (_, i) => String(i + 1))));
    return heads.replaceChildren(...headsOf(one).map((weights, h) => el("figure", {},
      el("div", { class: "scroll" }, matrix(weights, ...tokens, `${t("Head {n}", { n: h + 1 })}: `)), el("figcaption", { class: "small muted" }, one.checkpoint === at ? t("head {n}", { n: h + 1 }) : t("head {n}, at step {step}", { n: h + 1, step: one.checkpoint })))));
  }

  return function draw(changed) {
    if (!app.trace) return;
    if (changed.has("trace") || changed.has("model")) {
      const steps = app.trace.steps.filter((one) => weightsOf(one, "forward"));
      const { value } = attention;
      attention.replaceChildren(...steps.map(({ key, place }) => el("option", { value: key }, placeName(place).join(", "))));
      attention.value = steps.some(({ key }) => key === value) ? value : steps.at(-1)?.key;
      if (app.state.text !== answer?.text) asked = "";
    }
    load();
    if (answer?.steps.length && (changed.has("theme") || changed.has("checkpoint"))) show();
  };
}

/** Return a chart of one norm for each layer: the root of the summed squares of its parameters. */
function normChart(title, norms, steps, at) {
  const squares = new Map();
  for (const [name, values] of Object.entries(norms)) {
    const layer = /^(\w+\.layers\.\d+)\./.exec(name)?.[1] ?? name.split(".")[0];
    const sums = squares.get(layer) ?? values.map(() => 0);
    squares.set(layer, sums.map((sum, i) => sum + values[i] ** 2));
  }
  const lines = [...squares].map(([name, sums]) => ({ name: placeName(name).join(" "), points: sums.map((sum, i) => [steps[i], Math.sqrt(sum)]) }));
  return lineChart(title, t("norm|of a tensor"), lines, at);
}

function lineChart(title, yName, lines, at) {
  const all = lines.flatMap(({ points }) => points.map(([, y]) => y)).filter((y) => y > 0);
  const logY = Math.max(...all) > 10 * Math.min(...all);
  return el("figure", {}, el("figcaption", {}, el("h3", {}, title)),
    chart({ lines, logY, marker: at, xName: t("step"), yName, width: 460, height: 240,
      label: t(lines.length > 1 ? "{title} over the steps, one line for each layer; now {values}" : "{title} over the steps; now {values}", { title,
        values: lines.map(({ name, points }) => `${name} ${number(now(points, at), 3)}`).join(", ") }) }),
    lines.length > 1 ? chartKey(lines) : "",
    el("details", {}, el("summary", {}, t("As a table at step {n}", { n: at })), el("table", {}, el("tbody", {}, lines.map(({ name, points }) =>
      el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "figures" }, number(now(points, at)))))))));
}

function now(points, at) {
  return points.find(([step]) => step === at)?.[1];
}
