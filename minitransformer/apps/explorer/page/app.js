// What is chosen, what is loaded, and who is told. Views read `app`, never each other.
//
// A view is a module with `export function view(app, element)`. It builds its elements once and may return
// `draw(changed)`. The app calls draw at first, and after each change while the view can be seen; `changed` is a Set of
// names of the state, and "model", "translation", "trace" or "theme" for what has been loaded or turned.

import { el, withCode } from "./dom.js";
import { isAlone } from "./labels.js";
import { Refusal, Stopped, openStore } from "./store.js";
import { otherLanguage, said, t, translatePage } from "./words.js";

/** What can be chosen, and how it is written into the address. */
const STATE = {
  text: { initial: "", ...words() },
  beam: { initial: 1, ...numeral() },
  alpha: { initial: null, ...numeral() }, // null: that of the run
  prefix: { initial: [], ...numbers() }, // token ids that the translation begins with
  target: { initial: null, ...numbers() }, // token ids that are scored; null: the model's own translation
  objective: {
    initial: { kind: "loss" }, // or {kind: "log_probability", position, token} or {kind: "difference", ..., other}
    read: (text) => {
      const [kind, position, token, other] = text.split(":");
      return kind === "loss" ? { kind } : {
        kind, position: +position, token: +token, ...(kind === "difference" ? { other: +other } : {}),
      };
    },
    write: ({ kind, position, token, other }) => [kind, position, token, other].filter((x) => x !== undefined).join(":"),
  },
  edits: { initial: [], read: JSON.parse, write: JSON.stringify },
  checkpoint: { initial: null, ...numeral() },
  block: { initial: "", ...words() }, // a place, a step or a parameter
  side: { initial: "forward", ...words() }, // forward or backward
  view: { initial: "", ...words() }, // the view in front: attention, block, walk, edit or training
  tour: { initial: 0, ...numeral() }, // a step of the tour, from 1; 0: none
  value: { initial: null, ...words() }, // the key whose line is lit
  entry: { // one entry of one value: {key, index}
    initial: null,
    read: (text) => {
      const at = text.lastIndexOf("@");
      return { key: text.slice(0, at), index: text.slice(at + 1).split(",").filter(Boolean).map(Number) };
    },
    write: ({ key, index }) => `${key}@${index.join(",")}`,
  },
  head: { initial: null, ...numeral() }, // a head of the chosen attention
  word: { initial: null, ...numeral() }, // the position whose sources are lit in the attention view
  walk: { initial: 0, ...numeral() }, // how far the graph is walked
};

const LOADS = ["text", "beam", "alpha", "prefix", "target", "objective", "edits", "checkpoint"];
const FRONT = ["attention", "block", "walk", "edit", "training"];
const VIEWS = {
  translate: () => import("./translate.js"),
  tour: () => import("./tour.js"),
  figure: () => import("./figure.js"),
  block: () => import("./block.js"),
  attention: () => import("./attention.js"),
  walk: () => import("./walk.js"),
  edit: () => import("./edit.js"),
  training: () => import("./training.js"),
  entry: () => import("./entry.js"),
  objective: () => import("./objective.js"),
};

function words() { return { read: String, write: String }; }
function numeral() { return { read: Number, write: String }; }
function numbers() {
  return { read: (text) => text.split(",").filter(Boolean).map(Number), write: (list) => list.join(",") };
}

class App {
  state = Object.fromEntries(Object.entries(STATE).map(([name, { initial }]) => [name, initial]));
  model = null; // the answers to `model`, `translate` and `trace`
  translation = null;
  trace = null;
  unchanged = null; // the translation without edits, while there are edits
  loading = false;
  milliseconds = null; // from the last choice that needed the server to its numbers
  stopped = false;
  fresh = false; // whether the address chose nothing but a text
  #steps = new Map();
  #listeners = [];
  #views = [];
  #turn = 0;
  #unedited = null; // the last translation without edits, {name, translation}
  #scheduled = false;

  constructor(store) {
    this.store = store;
  }

  /** Let a function be called with the Set of names after each change. */
  on(listener) {
    this.#listeners.push(listener);
  }

  /**
   * Choose: app.set({block: "encoder.layers.0.self_attention", side: "backward"}).
   *
   * Return a promise of the error if a request that follows is refused, of undefined otherwise.
   */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => !same(changes[name], this.state[name]));
    if (!changed.length) return undefined;
    Object.assign(this.state, changes);
    this.#writeAddress();
    this.#tell(changed);
    return changed.some((name) => LOADS.includes(name)) ? this.load() : undefined;
  }

  /** Return a step of the trace by its key, undefined if there is none. */
  step(key) {
    return this.#steps.get(key);
  }

  /** Return the steps at a place and, if wanted, at the places inside it, in forward order. */
  stepsAt(place, inside = false) {
    return (this.trace?.steps ?? []).filter(
      (step) => step.place === place || (inside && (place === "" || step.place.startsWith(`${place}.`))),
    );
  }

  /** Return a window of a tensor of the trace: {shape, rows, columns, values: Float32Array, least, most}. */
  tensor(key, window = {}) {
    return this.guard(this.store.tensor({ trace: this.trace.id, key, ...window }));
  }

  /** Wait for an answer; show in the banner that the server has stopped, and pass every error on. */
  async guard(answer) {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof Stopped) this.#showStopped();
      throw error;
    }
  }

  /** Show an error where everybody sees it, until something else is chosen. */
  report(error) {
    if (error instanceof Stopped) return this.#showStopped();
    if (!(error instanceof Refusal)) console.error(error);
    this.#banner(error.message);
  }

  /** Let screen readers say something. */
  say(text) {
    document.getElementById("announcer").textContent = text;
  }

  /** Translate and trace what is chosen; an earlier request that is still under way is forgotten. */
  async load() {
    const turn = ++this.#turn;
    const { text, beam, alpha, prefix, target, objective, edits, checkpoint } = this.state;
    const alone = isAlone(this.model);
    if (!(alone ? text : text.trim())) {
      this.#setLoading(false);
      return this.#banner(said(alone ? "the text is empty, expected the beginning of a text" : "the text is empty, expected a sentence to translate"));
    }
    this.#setLoading(true);
    const began = performance.now();
    try {
      const sentence = { text, beam, alpha, prefix, edits, checkpoint };
      const translation = await this.guard(this.store.translate(sentence));
      if (turn !== this.#turn) return;
      const unedited = { ...sentence, edits: [] }, name = JSON.stringify(unedited);
      if (!edits.length) this.#unedited = { name, translation };
      else if (this.#unedited?.name !== name) {
        this.#unedited = { name, translation: await this.guard(this.store.translate(unedited)) };
        if (turn !== this.#turn) return;
      }
      const unchanged = edits.length ? this.#unedited.translation : null;
      Object.assign(this, { translation, unchanged });
      this.#tell(["translation"]);
      // With edits, the sentence that is scored stays the one that the model wrote without them.
      const own = prefix.length || edits.length ? (unchanged ?? translation).tokens.map((token) => token.id) : null;
      const trace = await this.guard(this.store.trace({ text, target: target ?? own, objective, edits, checkpoint }));
      if (turn !== this.#turn) return;
      this.trace = trace;
      this.#steps = new Map(trace.steps.map((step) => [step.key, step]));
      this.milliseconds = performance.now() - began;
      this.#banner("");
      this.#tell(["trace"]);
    } catch (error) {
      if (turn === this.#turn) this.report(error);
      return error;
    } finally {
      if (turn === this.#turn) this.#setLoading(false);
    }
  }

  async start() {
    for (const button of document.querySelectorAll("button[data-side]")) {
      button.addEventListener("click", () => this.set({ side: button.dataset.side }));
    }
    const tabs = [...document.querySelectorAll("button[data-view]")];
    for (const tab of tabs) tab.addEventListener("click", () => this.set({ view: tab.dataset.view }));
    document.getElementById("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
    this.fresh = [...new URLSearchParams(location.hash.slice(1)).keys()].every((name) => name === "text");
    window.addEventListener("hashchange", () => this.#readAddress());
    this.#startTheme();
    document.getElementById("language").addEventListener("click", () => { location.search = `?lang=${otherLanguage}`; });
    this.model = await this.guard(this.store.model());
    for (const answer of [this.store.sources(), this.store.formulas()]) answer.catch(() => {}); // ahead of the first block
    document.title = `${this.model.title} – minitransformer explore`;
    await this.#openViews();
    this.#readAddress();
    if (!this.state.text) this.set({ text: this.model.examples[0] ?? "" });
    this.#showChoice();
    this.#tell(["model"]);
  }

  async #openViews() {
    await Promise.all(Object.entries(VIEWS).map(async ([name, open]) => {
      const element = document.getElementById(name);
      try {
        const draw = (await open()).view(this, element);
        if (draw) this.#views.push({ element, draw, changed: new Set(["model"]) });
      } catch (error) {
        console.error(error);
        element.replaceChildren(el("p", { class: "muted" }, t("This view could not be opened: {message}", error)));
      }
    }));
  }

  #tell(changed) {
    const names = new Set(changed);
    for (const listener of this.#listeners) listener(names);
    this.#showChoice();
    for (const view of this.#views) for (const name of names) view.changed.add(name);
    this.#schedule();
  }

  /** Draw the views that can be seen, once for all changes of this moment. */
  #schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      for (const view of this.#views) {
        if (view.element.hidden || !view.changed.size) continue;
        const { changed } = view;
        view.changed = new Set();
        Promise.resolve().then(() => view.draw(changed)).catch((error) => this.report(error));
      }
    });
  }

  /** Show in the bar and the tabs what is chosen. */
  #showChoice() {
    const { side, view, tour, entry, edits, prefix, checkpoint } = this.state;
    Object.assign(document.documentElement.dataset, { side, view, tour });
    for (const button of document.querySelectorAll("button[data-side]")) {
      button.setAttribute("aria-pressed", String(button.dataset.side === side));
    }
    for (const tab of document.querySelectorAll("button[data-view]")) {
      const chosen = tab.dataset.view === view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    document.documentElement.toggleAttribute("data-entry", entry !== null);
    const changes = edits.length + Boolean(prefix.length);
    document.getElementById("tab-edit").textContent = changes ? t("Change ({n})", { n: changes }) : t("Change");
    if (this.model) document.getElementById("title").textContent = this.model.title + (checkpoint === null ? "" : `, ${t("checkpoint at step {n}", { n: checkpoint })}`);
    document.getElementById("objective").hidden = side !== "backward";
    for (const name of FRONT) document.getElementById(name).hidden = name !== view;
  }

  #setLoading(loading) {
    this.loading = loading;
    document.documentElement.toggleAttribute("data-loading", loading);
    document.querySelector("main").setAttribute("aria-busy", String(loading));
  }

  #showStopped() {
    this.stopped = true;
    this.#banner(t("The server has stopped. What is loaded stays here. Run `minitransformer explore` again to continue."));
  }

  #banner(text) {
    const banner = document.getElementById("banner");
    if (!text) this.stopped = false;
    banner.replaceChildren(...withCode(text));
    banner.hidden = !text;
    banner.classList.toggle("stopped", this.stopped);
  }

  #startTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const root = document.documentElement;
    const turn = (theme) => {
      root.dataset.theme = theme;
      document.dispatchEvent(new Event("themechange"));
      this.#tell(["theme"]);
    };
    turn(dark.matches ? "dark" : "light");
    dark.addEventListener("change", () => turn(dark.matches ? "dark" : "light"));
    document.getElementById("theme").addEventListener("click", () => turn(root.dataset.theme === "dark" ? "light" : "dark"));
  }

  /** Put what is chosen into the address, so that a link leads here. */
  #writeAddress() {
    const parts = new URLSearchParams();
    for (const [name, { initial, write }] of Object.entries(STATE)) {
      if (this.state[name] !== null && !same(this.state[name], initial)) parts.set(name, write(this.state[name]));
    }
    const address = `#${parts}`.replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%40", "@").replaceAll("%2C", ",");
    if (address !== location.hash) history.replaceState(null, "", address);
  }

  /** Choose what the address says; what it cannot say stays as at the start. */
  #readAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    if (location.hash && ![...parts.keys()].some((name) => name in STATE)) return; // a link inside the document
    const chosen = {};
    for (const [name, { initial, read }] of Object.entries(STATE)) {
      try {
        chosen[name] = parts.has(name) ? read(parts.get(name)) : initial;
      } catch {
        chosen[name] = initial;
      }
    }
    if (!chosen.text) chosen.text = this.state.text || this.model.examples[0] || "";
    if (!FRONT.includes(chosen.view)) chosen.view = chosen.block ? "block" : "attention";
    if (chosen.side !== "backward") chosen.side = "forward";
    this.set(chosen);
  }
}

function same(a, b) {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

try {
  translatePage();
  const app = new App(await openStore());
  window.explorer = app;
  await app.start();
} catch (error) {
  const banner = document.getElementById("banner");
  banner.replaceChildren(...withCode(error.message));
  banner.hidden = false;
  throw error;
}
