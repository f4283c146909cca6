// The order in which the graph is walked: forward from the tokens to the objective, backward from the objective to the
// parameters. At a node that is used twice, the parts that are summed.

import { breakable, el, number, shapeText } from "./dom.js";
import { Heatmap } from "./heatmap.js";
import { names, placeName, placeOf } from "./labels.js";
import { phrase, t } from "./words.js";

const PACE = 700; // milliseconds for each step while it plays

export function view(app, element) {
  const counter = el("span", { class: "figures walk-counter" });
  const slider = el("input", { type: "range", min: 0, value: 0, "aria-label": t("Step of the walk"), oninput: () => go(+slider.value) });
  const button = (text, label, action) => el("button", { type: "button", "aria-label": label, onclick: action }, text);
  const play = button(t("Play"), t("Play"), () => (timer ? stop() : start()));
  const now = el("div", { class: "walk-now", "aria-live": "polite" });
  const picture = el("div", {});
  const list = el("ol", { class: "walk-list", "aria-label": t("Order") });
  const map = new Heatmap(app, picture, { height: 300, onSelect: (index) => app.set({ entry: { key: shown, index } }) });
  element.append(
    el("div", { class: "block-head" }, el("div", {}, el("h2", {}, t("Walk")), el("p", { class: "path small muted walk-order" }))),
    el("div", { class: "walk-controls" }, button("◀", t("Step back"), () => go(app.state.walk - 1)), play,
      button("▶", t("Step forward"), () => go(app.state.walk + 1)), slider, counter),
    el("div", { class: "walk-columns" }, el("div", {}, now, picture), list));
  let timer = 0, shown = null, built = null, items = [];

  /** Return the steps in the order of the walk: {key, step, parts}. */
  function order() {
    const { trace, state } = app;
    if (state.side === "backward") return trace.walk;
    return trace.steps.map((step) => ({ key: step.key, parts: [] }));
  }

  function go(to) {
    const last = order().length - 1;
    if (to > last) stop();
    app.set({ walk: Math.min(Math.max(to, 0), last) });
  }

  function start() {
    if (app.state.walk >= order().length - 1) go(0);
    timer = setInterval(() => (element.hidden ? stop() : go(app.state.walk + 1)), PACE);
    play.textContent = t("Pause");
    play.setAttribute("aria-label", t("Pause"));
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = t("Play");
    play.setAttribute("aria-label", t("Play"));
  }

  function buildList(visits) {
    items = visits.map((visit, i) => el("li", {}, el("button", { type: "button", class: "link", onclick: () => { stop(); go(i); } },
      el("span", { class: "walk-number figures" }, i + 1), el("span", { class: "walk-key" }, breakable(short(visit.key))),
      visit.parts.length > 1 ? el("span", { class: "mark" }, t("sum of {n}", { n: visit.parts.length })) : "")));
    list.replaceChildren(...items);
  }

  return async () => {
    if (!app.trace) return;
    const backward = app.state.side === "backward", visits = order();
    const at = Math.min(app.state.walk, visits.length - 1), visit = visits[at];
    if (built !== `${app.trace.id} ${backward}`) {
      built = `${app.trace.id} ${backward}`;
      buildList(visits);
      slider.max = visits.length - 1;
      element.querySelector(".walk-order").textContent = backward
        ? t("From the objective back to the parameters. A node is visited after all of its users have sent their gradients.")
        : t("From the tokens to the objective, in the order in which the model computes.");
    }
    slider.value = at;
    counter.textContent = t("{n} of {all}", { n: at + 1, all: visits.length });
    items.forEach((item, i) => {
      item.classList.toggle("done", i < at);
      item.classList.toggle("current", i === at);
      item.firstChild.setAttribute("aria-current", i === at ? "step" : "false");
    });
    const item = items[at];
    list.scrollTop = Math.max(item.offsetTop - list.clientHeight / 2, 0);
    now.replaceChildren(...describe(app, visit, backward));
    const key = (backward ? "d:" : "") + visit.key;
    const found = app.step(visit.key) ?? app.trace.parameters.find((one) => one.key === visit.key);
    shown = key;
    picture.hidden = backward && !found.gradient;
    if (picture.hidden) return;
    const [rows, columns] = names(app, key, found.shape);
    await map.show({ key, shape: found.shape, label: key, rows, columns });
  };
}

/** Return what happens at a step of the walk. */
function describe(app, visit, backward) {
  const step = app.step(visit.key);
  const open = (key) => el("button", { type: "button", class: "link", onclick: () => app.set({ block: key, value: null, view: "block" }) }, breakable(short(key)));
  const words = placeName(step ? step.place : placeOf(visit.key));
  const title = el("h3", { class: "walk-title" }, words.join(" · "), " ", el("code", {}, step ? step.operation : visit.key.slice(visit.key.lastIndexOf(".") + 1)));
  if (!backward) {
    const inputs = step.inputs.filter((input) => input.key);
    const users = app.trace.steps.filter((other) => other.inputs.some((input) => input.key === step.key));
    return [title,
      el("p", {}, phrase("Reads {inputs}.", { inputs: join(inputs.map((input) => phrase("{name} from {step}", { name: el("code", {}, input.name), step: open(input.key) })), t("constants only")) })),
      el("p", {}, phrase("Writes {shape} for {users}.", { shape: el("span", { class: "figures" }, shapeText(step.shape)), users: join(users.map((user) => open(user.key)), t("the objective")) })),
      openButton(app, visit.key)];
  }
  const parts = visit.parts, gradient = (step ?? app.trace.parameters.find((one) => one.key === visit.key)).gradient;
  const most = Math.max(...parts.map((part) => part.norm), gradient?.norm ?? 0, 1e-30);
  const row = (name, norm, sum = false) => {
    const fill = el("span", { class: `bar-fill ${sum ? "" : "stream-added"}` });
    fill.style.width = `${100 * norm / most}%`;
    return el("tr", { class: sum ? "sum" : null }, el("th", { scope: "row" }, [name].flat(2)), el("td", {}, number(norm, 3)), el("td", {}, el("span", { class: "bar-track", "aria-hidden": "true" }, fill)));
  };
  const received = parts.length
    ? [el("p", {}, t(parts.length > 1 ? "Its value was used {n} times. The gradients of all uses are summed:" : "Its value was used once. It receives one gradient:", { n: parts.length })),
      el("table", { class: "table figures parts" }, el("thead", {}, el("tr", {}, [t("from"), t("norm|of a tensor"), ""].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, parts.map((part) => row([open(part.from), part.input ? el("span", { class: "muted" }, phrase(" for its {input}", { input: el("code", {}, part.input) })) : ""], part.norm)), parts.length > 1 && gradient ? row(t("sum"), gradient.norm, true) : ""))]
    : [el("p", {}, t("The walk begins here, with the gradient 1 of the objective with respect to itself."))];
  const sends = step ? app.trace.walk.filter((other) => other.parts.some((part) => part.from === step.key)) : [];
  return [title, ...received, step
    ? el("p", {}, phrase("Sends gradients to {steps}.", { steps: join(sends.map((other) => open(other.key)), t("none")) }))
    : el("p", {}, t("A parameter: this gradient is what the optimiser uses.")), openButton(app, visit.key)];
}

function openButton(app, key) {
  return el("button", { type: "button", onclick: () => app.set({ block: key, value: null, view: "block" }) }, t("Open the block"));
}

function join(parts, none) {
  return parts.length ? parts.flatMap((part, i) => [i ? (i === parts.length - 1 ? t(" and ") : ", ") : "", part]).flat() : none;
}

/** Return a key without what every key has. */
function short(key) {
  return key.replace(".layers.", ".").replace(/^\//, "");
}
