// What is differentiated: the loss of the sentence, the log-probability of one token, or the difference between two.

import { el, number } from "./dom.js";

const KINDS = { loss: "loss", log_probability: "log-probability", difference: "difference of log-probabilities" };

export function view(app, element) {
  const value = el("span", { class: "figures small muted" });
  const kind = el("select", { "aria-label": "What is differentiated", onchange: () => change() },
    Object.entries(KINDS).map(([name, text]) => el("option", { value: name }, text)));
  const position = el("select", { "aria-label": "Position", onchange: () => change(true) });
  const token = el("select", { "aria-label": "Token", onchange: () => change() });
  const other = el("select", { "aria-label": "Other token", onchange: () => change() });
  element.append(el("span", { class: "small muted" }, "of the"), kind, position, token, other, value);

  function change(moved = false) {
    if (kind.value === "loss") return app.set({ objective: { kind: "loss" } });
    const at = Math.min(+position.value || 0, app.trace.target_out.length - 1);
    const own = moved || token.value === "" ? app.trace.target_out[at].id : +token.value;
    const objective = { kind: kind.value, position: at, token: own };
    if (kind.value === "difference") objective.other = other.value === "" || +other.value === own ? rival(at, own) : +other.value;
    app.set({ objective });
  }

  /** Return the most likely other token at a position. */
  function rival(at, own) {
    const others = app.translation?.tokens[at]?.alternatives.find((one) => one.id !== own);
    return others?.id ?? (own ? 0 : 1);
  }

  return () => {
    const { objective, side } = app.state;
    element.hidden = false;
    element.classList.toggle("idle", side !== "backward");
    kind.value = objective.kind;
    for (const select of [position, token]) select.hidden = objective.kind === "loss" || !app.trace;
    other.hidden = objective.kind !== "difference" || !app.trace;
    value.textContent = app.trace ? `= ${number(app.trace.objective.value)}` : "";
    if (objective.kind === "loss" || !app.trace) return;
    position.replaceChildren(...app.trace.target_out.map((one, i) => el("option", { value: i }, `${i}: ${one.text}`)));
    position.value = objective.position;
    const vocabulary = app.model.target_vocabulary;
    for (const [select, id] of [[token, objective.token], [other, objective.other]]) {
      if (select.childElementCount !== vocabulary.length) {
        select.replaceChildren(...vocabulary.map((text, i) => el("option", { value: i }, text)));
      }
      select.value = id ?? "";
    }
  };
}
