// What is differentiated: the loss, the log-probability of a token, or the difference between two.

import { el, number } from "./dom.js";
import { tokenChoices } from "./labels.js";
import { t } from "./words.js";

const KINDS = [
  ["loss", t("the loss of this text")],
  ["log_probability", t("the log-probability of one token")],
  ["difference", t("the difference between two log-probabilities")],
];

/** Return the name and unit of what is differentiated. */
export function objectiveName({ trace, model }) {
  const { kind, position, token, other } = trace.objective;
  if (kind === "loss") return t("loss of this text, in nats per token");
  const name = (id) => `“${model.target_vocabulary[id] ?? id}”`;
  const values = { token: name(token), other: name(other), n: position + 1 };
  return kind === "difference" ? t("log-probability of {token} minus that of {other} at position {n}, in nats", values) : t("log-probability of {token} at position {n}, in nats", values);
}

export function view(app, root) {
  const kind = el("select", { "aria-label": t("Differentiate"), onchange: change },
    KINDS.map(([value, text]) => el("option", { value }, text)));
  const position = el("select", { "aria-label": t("At position"), onchange: change });
  const token = el("select", { "aria-label": t("Token"), onchange: change });
  const other = el("select", { "aria-label": t("Other token"), onchange: change });
  const choice = el("span", { class: "line-up", hidden: true }, el("label", {}, `${t("position")} `, position), el("label", {}, `${t("token")} `, token));
  const second = el("label", { hidden: true }, `${t("less")} `, other);
  choice.append(second);
  const value = el("output", { class: "objective-value" });
  root.replaceChildren(el("label", {}, `${t("Differentiate")} `, kind), choice, value);

  function change(event) {
    const held = app.store.objectives(app.state.text)?.find((one) => one.kind === kind.value);
    if (held) return app.set({ objective: held });
    const objective = { kind: kind.value };
    // Another place: begin with the token that stands there, and the best alternative to it.
    if (event.target === position && app.trace) {
      const at = Number(position.value), { id } = app.trace.target_out[at];
      token.value = id;
      other.value = runnerUp(app.translation, at, id) ?? other.value;
    }
    if (kind.value !== "loss") Object.assign(objective, { position: Number(position.value), token: Number(token.value) });
    if (kind.value === "difference") objective.other = Number(other.value);
    return app.set({ objective });
  }

  return function draw() {
    const { trace, model, state: { objective, text } } = app;
    if (!trace || !model) return;
    const held = app.store.objectives(text);
    for (const option of kind.options) option.disabled = held !== null && !held.some((one) => one.kind === option.value);
    for (const select of [position, token, other]) Object.assign(select, { disabled: held !== null });
    kind.title = held ? app.store.refusal : "";
    kind.value = objective.kind;
    choice.hidden = objective.kind === "loss";
    second.hidden = objective.kind !== "difference";
    const at = Math.min(objective.position ?? 0, trace.target_out.length - 1);
    const tokens = tokenChoices(app);
    const here = trace.target_out[at].id;
    options(position, trace.target_out.map(({ text }, i) => [i, `${i + 1}: ${text}`]), at);
    options(token, tokens, objective.token ?? here);
    options(other, tokens, objective.other ?? runnerUp(app.translation, at, here) ?? tokens.find(([id]) => id !== here)?.[0]);
    value.textContent = same(trace.objective, objective) ? `= ${number(trace.objective.value)} ${objective.kind === "loss" ? t("nats per token") : t("nats")}` : "";
  };
}

/** Return the best alternative to a token at a place. */
function runnerUp(translation, position, token) {
  return translation?.tokens[position]?.alternatives.find(({ id }) => id !== token)?.id;
}

function same(a, b) {
  return ["kind", "position", "token", "other"].every((name) => a[name] === b[name]);
}

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}
