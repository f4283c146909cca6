// A sentence and its translation: token by token, with the best alternatives, and the tree of beam search. Or a text, of
// a decoder alone, and what follows it.

import { el, percent, withCode } from "./dom.js";
import { isAlone } from "./labels.js";
import { drawTree } from "./tree.js";
import { said, t } from "./words.js";

const PAUSE = 220; // milliseconds from one token to the next

export function view(app, root) {
  const parts = sentenceForm(app);
  const output = el("div", { class: "translation-output" });
  const heading = el("h2", {}, t("Translation"));
  root.replaceChildren(heading, parts.form, output);
  let shown = null;

  return function draw(changed) {
    parts.draw();
    if (app.model && isAlone(app.model)) heading.textContent = t("Text");
    const answer = app.translation;
    if (!answer || (answer === shown && !changed.has("translation")) || !(changed.has("translation") || changed.has("model"))) return;
    const again = JSON.stringify(shown?.tokens) === JSON.stringify(answer.tokens);
    shown = answer;
    output.replaceChildren(...translation(app, answer, !again));
    if (!again) app.say(`${heading.textContent}: ${answer.text}`);
  };
}

/** Return {form, draw}: the sentence, examples, the size of the beam and the length penalty. */
function sentenceForm(app) {
  const { live } = app.store;
  const sentence = el("textarea", { id: "sentence", rows: 1, spellcheck: "false", maxlength: 2000, disabled: !live,
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      form.requestSubmit();
    } });
  const examples = el("select", { "aria-label": t("Examples"), onchange: () => {
    if (examples.value) app.set(sentenceChange(app, examples.value));
  } });
  const beam = el("input", { type: "number", name: "beam", min: 1, max: 10, step: 1, required: true, disabled: !live });
  const alpha = el("input", { type: "number", name: "alpha", min: 0, max: 5, step: 0.1, required: true, disabled: !live });
  const penalty = el("label", {}, "alpha ", alpha);
  const width = el("label", { title: t("How many hypotheses each step keeps; 1 is greedy decoding") }, "beam ", beam);
  const submit = el("button", { type: "submit", class: "primary", disabled: !live }, t("Translate"));
  const form = el("form", { class: "sentence-form", onsubmit: (event) => {
    event.preventDefault();
    const text = isAlone(app.model) ? sentence.value : sentence.value.trim();
    app.set({ ...(text === app.state.text ? {} : sentenceChange(app, text)), beam: Number(beam.value),
      alpha: Number(alpha.value) === app.model.search.alpha ? null : Number(alpha.value) });
  } },
  el("label", { for: "sentence", class: "visually-hidden" }, t("Text")), sentence,
  el("div", { class: "line-up" }, submit, examples, live && width, live && penalty),
  live ? null : el("p", { class: "muted small" }, withCode(app.store.refusal), " ", app.store.leftOut));
  let filled = false;

  function draw() {
    const { text, beam: size, alpha: chosen } = app.state, rules = app.model?.search;
    if (app.model && !filled) {
      filled = true;
      beam.max = app.model.limits?.beam ?? beam.max;
      width.hidden = penalty.hidden = isAlone(app.model);
      if (isAlone(app.model)) submit.textContent = t("Continue");
      penalty.title = rules?.penalty === "length" ? t("Length penalty: a score is the log-probability divided by length^alpha") : t("Length penalty: a score is the log-probability divided by ((5 + length) / 6)^alpha");
      if (!Number.isInteger(10 * rules?.alpha)) alpha.step = "any";
      examples.append(el("option", { value: "" }, live ? t("Examples …") : t("Texts in this file …")),
        ...app.model.examples.map((one) => el("option", { value: one }, one)));
      examples.hidden = app.model.examples.length < 2;
    }
    examples.value = app.model?.examples.includes(text) ? text : "";
    if (document.activeElement !== sentence) sentence.value = text;
    if (document.activeElement !== beam) beam.value = size;
    if (document.activeElement !== alpha) alpha.value = chosen ?? rules?.alpha ?? "";
  }
  return { form, draw };
}

/** Return what changes with the sentence: everything that points at a place in the old one is dropped. */
export function sentenceChange(app, text) {
  const anySentence = (edit) => edit.kind.endsWith("_off") || edit.kind === "temperature" ||
    (edit.kind === "set_entry" && !edit.key.includes("/"));
  return { text, prefix: [], target: null, entry: null, objective: { kind: "loss" }, edits: app.state.edits.filter(anySentence) };
}

function translation(app, answer, animate) {
  const force = app.store.live ? (ids) => app.set({ prefix: ids }) : null;
  const forced = app.state.prefix.length;
  const places = answer.tokens.map((token, i) => placeOf(answer.tokens, i, i < forced, force));
  const text = el("output", { class: "translation", for: "sentence" });
  const reveal = revealer(places, (n) => {
    text.textContent = n >= places.length ? answer.text : answer.tokens.slice(0, n).map((token) => token.text).join(isAlone(app.model) ? "" : " ");
  });
  const tree = el("div");
  if (answer.tree) drawTree(tree, answer.tree, force);
  if (animate) reveal.play();
  else reveal.all();
  return [
    answer.source.length ? el("p", { class: "source-tokens" }, el("span", { class: "muted" }, `${t("Tokens:")} `),
      answer.source.map(({ text: word }) => [el("span", { class: "token" }, word), " "])) : null,
    ...(answer.notes ?? []).map((note) => el("p", { class: "refusal", role: "status" }, withCode(said(note)))),
    text,
    answer.finished === false ? el("p", { class: "muted small" }, t("Stopped at the limit of tokens; the model wrote no <end>.")) : null,
    el("div", { class: "line-up" },
      el("button", { type: "button", onclick: reveal.play }, t("Play again")),
      el("button", { type: "button", onclick: reveal.step }, t("Next token")),
      el("button", { type: "button", onclick: reveal.all }, t("Show all")),
      forced && force
        ? el("button", { type: "button", onclick: () => force([]) }, t(forced > 1 ? "Release {n} forced tokens" : "Release {n} forced token", { n: forced })) : null),
    app.unchanged ? el("p", { class: "changed-note" }, `${t("Before the change: {text}", app.unchanged)} `,
      el("button", { type: "button", class: "link", onclick: () => app.set({ edits: [] }) }, t("Undo all changes"))) : null,
    el("ol", { class: "places", tabindex: 0, "aria-label": isAlone(app.model) ? t("Tokens of the text, each with its best alternatives") : t("Tokens of the translation, each with its best alternatives") }, places),
    answer.tree ? el("details", { class: "tree", open: app.state.beam > 1 }, el("summary", {}, t("Beam search")), tree) : null,
  ].filter(Boolean);
}

/** Return the card of one place: the token, and the best alternatives as bars that can be chosen. */
function placeOf(tokens, i, forced, force) {
  const { id, text, probability, alternatives } = tokens[i];
  const before = tokens.slice(0, i).map((token) => token.id);
  const listed = alternatives.some((one) => one.id === id) ? alternatives : [...alternatives, { id, text, probability }];
  const bars = listed.map((one) => {
    const chosen = one.id === id;
    const label = t(chosen ? "{token}, {share}, chosen" : "{token}, {share}; force it at position {n}", { token: one.text, share: percent(one.probability), n: i + 1 });
    const content = [
      el("span", { class: "chance-fill", style: `inline-size: ${(100 * one.probability).toFixed(1)}%` }),
      el("span", { class: "chance-text" }, one.text), el("span", { class: "chance-number" }, percent(one.probability)),
    ];
    return el("li", {}, force
      ? el("button", { type: "button", class: `chance${chosen ? " chosen" : ""}`, "aria-label": label, "aria-pressed": String(chosen),
        onclick: () => force([...before, one.id]) }, content)
      : el("span", { class: `chance${chosen ? " chosen" : ""}` }, content));
  });
  return el("li", { class: `place${forced ? " forced" : ""}` },
    el("div", { class: "place-head" }, el("span", { class: "muted" }, `${i + 1}`), el("strong", {}, text),
      forced ? el("span", { class: "tag" }, t("forced")) : null),
    el("ul", {}, bars));
}

/** Show the first n of the places; play() shows one after the other. */
function revealer(places, tell) {
  let n = 0, timer;
  const show = (count) => {
    n = Math.min(count, places.length);
    places.forEach((place, i) => place.classList.toggle("to-come", i >= n));
    places.forEach((place, i) => { place.inert = i >= n; });
    tell(n);
  };
  const stop = () => clearInterval(timer);
  const all = () => { stop(); show(places.length); };
  const play = () => {
    stop();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return all();
    show(1);
    timer = setInterval(() => {
      if (n >= places.length || !places[0].isConnected) return stop();
      show(n + 1);
    }, PAUSE);
  };
  return { play, all, step: () => { stop(); show(n >= places.length ? 1 : n + 1); } };
}
