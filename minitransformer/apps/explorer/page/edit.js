// Changes of the model while it runs: those in force, and an editor.

import { el, number, shapeText, withCode } from "./dom.js";
import { tokensOf, weightsOf } from "./attention.js";
import { entryOf, readIndex } from "./keys.js";
import { placeName, tokenChoices } from "./labels.js";
import { outcomeOf, separator } from "./outcome.js";
import { t } from "./words.js";

const KINDS = [
  ["set_entry", t("an entry of a parameter or activation")],
  ["set_weight", t("an attention weight")],
  ["head_off", t("switch off an attention head")],
  ["sublayer_off", t("switch off a sub-layer")],
  ["layer_off", t("switch off a layer")],
  ["set_mask", t("an entry of a mask")],
  ["temperature", t("the temperature of a softmax")],
  ["prefix", t("a token that is written")],
];

export function view(app, root) {
  const { live } = app.store;
  const editor = editorOf(app, apply);
  const list = el("ul", { class: "edits", "aria-label": t("Active changes") });
  const undo = el("button", { type: "button", onclick: () => {
    const last = past.pop();
    if (last) { known = last; app.set(last); }
  } }, t("Undo"));
  const reset = el("button", { type: "button", onclick: () => app.set({ edits: [], prefix: [] }) }, t("Reset"));
  const outcome = outcomeOf(app);
  root.replaceChildren(el("h2", {}, t("Change something")),
    live ? editor.form : el("p", {}, withCode(app.store.refusal)),
    ...live ? [el("h3", {}, t("In force")), list, el("div", { class: "line-up" }, undo, reset), outcome.element] : []);
  const past = [];
  let known = { edits: [], prefix: [] }, text = null;
  app.on(() => {
    const { edits, prefix } = app.state;
    if (app.state.text !== text) past.length = 0;
    else if (JSON.stringify(known) !== JSON.stringify({ edits, prefix })) past.push(known);
    text = app.state.text;
    known = { edits, prefix };
  });

  async function apply({ edit, prefix }) {
    const { edits, prefix: begun } = app.state;
    const refused = await app.set(edit ? { edits: [...edits.filter((one) => targetOf(one) !== targetOf(edit)), edit] } : { prefix });
    if (refused) {
      past.pop();
      known = { edits, prefix: begun };
      app.set(known);
      throw refused;
    }
  }

  return async function draw(changed) {
    const { edits, prefix } = app.state;
    undo.disabled = !past.length;
    reset.disabled = !edits.length && !prefix.length;
    if (!app.trace) return;
    editor.draw(changed);
    list.replaceChildren(
      ...edits.map((edit, i) => el("li", {}, el("span", {}, describe(app, edit)), " ",
        el("button", { type: "button", "aria-label": t("Remove: {change}", { change: describe(app, edit) }),
          onclick: () => app.set({ edits: edits.filter((_, j) => j !== i) }) }, t("Remove")))),
      ...prefix.length ? [el("li", {}, el("span", {}, t("What is written begins with: {tokens}", { tokens: prefix.map((id) => tokenText(app, id)).join(separator(app)) })), " ",
        el("button", { type: "button", onclick: () => app.set({ prefix: [] }) }, t("Remove")))] : []);
    if (!edits.length && !prefix.length) list.append(el("li", { class: "muted" }, t("Nothing is changed.")));
    await outcome.draw();
  };
}

/** Return {form, draw}: the fields of one change. */
function editorOf(app, apply) {
  const field = Object.fromEntries(["kind", "step", "attention", "sublayer", "layer", "head", "query", "keyToken", "visible", "how", "place", "token"]
    .map((name) => [name, el("select", { name, onchange: () => fit(name) })]));
  field.key = el("input", { name: "key", list: "edit-keys", class: "mono", spellcheck: "false", oninput: () => fit("key") });
  field.index = el("input", { name: "index", class: "mono", oninput: () => showPresent() });
  field.value = el("input", { name: "value", class: "figures", inputmode: "decimal", value: "0" });
  const keys = el("datalist", { id: "edit-keys" });
  const present = el("span", { class: "muted small", "aria-live": "polite" });
  const refusal = el("p", { class: "refusal", role: "alert" });
  const labels = {
    key: [t("Tensor"), "set_entry"], index: [t("Index"), "set_entry"], attention: [t("Attention"), "set_weight head_off set_mask"],
    step: [t("Softmax of"), "temperature"], sublayer: [t("Sub-layer"), "sublayer_off"], layer: [t("Layer"), "layer_off"],
    head: [t("Head"), "set_weight head_off"], query: [t("Query"), "set_weight set_mask"], keyToken: [t("Key"), "set_weight set_mask"],
    visible: [t("The query"), "set_mask"], how: ["", "set_entry set_weight"], value: [t("Value"), "set_entry set_weight temperature"],
    place: [t("At position"), "prefix"], token: [t("Token"), "prefix"],
  };
  const rows = Object.entries(labels).map(([name, [label, kinds]]) => ({ kinds: kinds.split(" "),
    element: el("label", { class: `field field-${name}` }, label && `${label} `, field[name]) }));
  for (const [name, [label]] of Object.entries(labels)) field[name].setAttribute("aria-label", label ? t("{field} of the change", { field: label }) : t("Set or multiply"));
  field.kind.setAttribute("aria-label", t("Change"));
  const submit = el("button", { type: "submit", class: "primary" }, t("Apply"));
  const form = el("form", { class: "edit-form", onsubmit: submitted },
    el("label", { class: "field" }, `${t("Change")} `, field.kind), rows.map(({ element }) => element), keys, present, submit, refusal);
  field.kind.append(...KINDS.map(([value, text]) => el("option", { value }, text)));
  field.visible.append(el("option", { value: "" }, t("may not see the key")), el("option", { value: "1" }, t("may see the key")));
  field.how.append(el("option", { value: "set" }, t("set to")), el("option", { value: "scale" }, t("multiply by")));
  let shapes = new Map(), shown = null;

  function fit(name) {
    for (const { kinds, element } of rows) element.hidden = !kinds.includes(field.kind.value);
    if (name === "kind" || name === "attention") {
      const step = app.step(field.attention.value);
      if (step) {
        const [queries, tokens] = tokensOf(app.trace, step.place);
        choose(field.head, Array.from({ length: weightsOf(step, "forward").shape[1] }, (_, h) => [h, String(h + 1)]));
        choose(field.query, queries.map((text, i) => [i, `${i + 1}: ${text}`]));
        choose(field.keyToken, tokens.map((text, i) => [i, `${i + 1}: ${text}`]));
      }
    }
    if (name === "kind") field.value.value = field.kind.value === "temperature" ? "2" : "0";
    showPresent();
  }

  /** Return the key and index of the entry that the fields name. */
  function target() {
    if (field.kind.value === "set_weight") {
      return { key: weightsOf(app.step(field.attention.value), "forward").key,
        index: [0, ...[field.head, field.query, field.keyToken].map(({ value }) => Number(value))] };
    }
    const key = field.key.value.trim(), shape = shapes.get(key);
    if (!shape) throw new Error(t("Found no parameter or output {key}; choose one from the list.", { key: key || t("(empty)") }));
    return { key, index: readIndex(field.index.value, shape, key) };
  }

  async function showPresent() {
    present.textContent = "";
    if (!["set_entry", "set_weight"].includes(field.kind.value)) return;
    const shape = shapes.get(field.key.value);
    if (field.kind.value === "set_entry" && shape) field.index.placeholder = shape.map(() => 0).join(", ");
    try {
      const { key, index } = target();
      present.textContent = t("now {value}", { value: number(await entryOf(app, key, index), 6) });
    } catch {
      if (shape) present.textContent = t("shape {shape}", { shape: shapeText(shape) });
    }
  }

  async function read() {
    const kind = field.kind.value, value = Number(field.value.value.replace(",", ".").replace("−", "-"));
    const needsValue = rows.find(({ element }) => element.contains(field.value)).kinds.includes(kind);
    if (needsValue && (!Number.isFinite(value) || !field.value.value.trim())) {
      throw new Error(t("Found the value “{value}”, expected a finite number such as 0.5.", field.value));
    }
    if (kind === "temperature" && value <= 0) throw new Error(t("Found the temperature {value}, expected a number above 0.", field.value));
    const step = field.attention.value, head = Number(field.head.value);
    const pair = [Number(field.query.value), Number(field.keyToken.value)];
    switch (kind) {
      case "set_entry": case "set_weight": {
        const { key, index } = target();
        const result = field.how.value === "scale" ? value * await entryOf(app, key, index) : value;
        return { edit: kind === "set_weight" ? { kind, step, index, value: result } : { kind, key, index, value: result } };
      }
      case "head_off": return { edit: { kind, step, head } };
      case "sublayer_off": return { edit: { kind, place: field.sublayer.value } };
      case "layer_off": return { edit: { kind, place: field.layer.value } };
      case "set_mask": return { edit: { kind, step, index: pair, visible: Boolean(field.visible.value) } };
      case "temperature": return { edit: { kind, step: field.step.value, value } };
      default: {
        const place = Number(field.place.value);
        return { prefix: [...app.translation.tokens.slice(0, place).map(({ id }) => id), Number(field.token.value)] };
      }
    }
  }

  async function submitted(event) {
    event.preventDefault();
    refusal.textContent = "";
    submit.disabled = true;
    try {
      await apply(await read());
      app.say(t("Changed."));
    } catch (error) {
      refusal.replaceChildren(...withCode(`${t("Nothing has changed.")} ${error.message}`));
    } finally {
      submit.disabled = false;
    }
  }

  /** Begin with the attention, sub-layer and layer that are chosen in the drawing. */
  function startAt(block) {
    const place = block.split("/")[0], inside = (one) => place && (`${place}.`.startsWith(`${one}.`) || `${one}.`.startsWith(`${place}.`));
    for (const select of [field.attention, field.step, field.sublayer, field.layer]) {
      const option = [...select.options].findLast(({ value }) => inside(value.split("/")[0]));
      if (option) select.value = option.value;
    }
    fit("attention");
  }

  function draw(changed) {
    const { trace, state: { draft, entry } } = app;
    if (changed.has("trace") || changed.has("model")) {
      const attentions = trace.steps.filter((step) => weightsOf(step, "forward"));
      const names = attentions.map(({ key, place }) => [key, spoken(place)]);
      const sublayers = [...new Set(trace.steps.map(({ place }) => place).filter((place) => /(self_attention|cross_attention|feed_forward)$/.test(place)))];
      shapes = new Map([...trace.parameters, ...trace.steps].map(({ key, shape }) => [key, shape]));
      keys.replaceChildren(...[...shapes.keys()].map((value) => el("option", { value })));
      choose(field.attention, names);
      choose(field.step, [["/linear", t("the output: logits to probabilities")], ...names]);
      choose(field.sublayer, sublayers.map((place) => [place, spoken(place)]));
      choose(field.layer, [...new Set(sublayers.map((place) => place.slice(0, place.lastIndexOf("."))))].map((place) => [place, spoken(place)]));
      choose(field.token, tokenChoices(app));
      choose(field.place, app.translation.tokens.map(({ text }, i) => [i, `${i + 1}: ${text}`]));
      fit("attention");
    }
    if (changed.has("block") || changed.has("trace")) startAt(app.state.block);
    if (draft && draft !== shown) {
      shown = draft;
      field.kind.value = draft.kind;
      field.how.value = "set";
      fit("kind");
      if (draft.step) field.attention.value = draft.step;
      fit("attention");
      if (draft.kind === "set_weight") {
        [field.head, field.query, field.keyToken].forEach((select, i) => { select.value = draft.index[i + 1]; });
      } else if (draft.key) Object.assign(field.key, { value: draft.key }), field.index.value = draft.index.join(", ");
      showPresent();
      field.value.focus();
      field.value.select();
    } else if (changed.has("entry") && entry && shapes.has(entry.key) && field.kind.value === "set_entry") {
      field.key.value = entry.key;
      field.index.value = entry.index.join(", ");
      showPresent();
    }
  }
  fit("kind");
  return { form, draw };
}

/** Fill a list of choices; what was chosen stays chosen. */
function choose(select, entries) {
  const { value } = select;
  select.replaceChildren(...entries.map(([name, text]) => el("option", { value: name }, text)));
  if (entries.some(([name]) => String(name) === value)) select.value = value;
}

/** Return what an edit overwrites; a second edit of the same takes its place. */
function targetOf({ kind, key, step, place, head, index }) {
  return JSON.stringify([kind, key, step, place, head, index]);
}

function describe(app, edit) {
  const step = edit.step !== undefined && app.step(edit.step);
  const [queries, tokens] = step ? tokensOf(app.trace, step.place) : [[], []];
  const pair = (q, k) => `${queries[q] ?? "?"} (${q + 1}) → ${tokens[k] ?? "?"} (${k + 1})`;
  switch (edit.kind) {
    case "set_entry": return `${edit.key}[${edit.index.join(", ")}] = ${number(edit.value)}`;
    case "set_weight": return t("{place}, head {n}: weight {pair} = {value}", { place: spoken(step.place), n: edit.index[1] + 1, pair: pair(...edit.index.slice(2)), value: number(edit.value) });
    case "head_off": return t("{place}: head {n} is off", { place: spoken(step.place), n: edit.head + 1 });
    case "sublayer_off": case "layer_off": return t("{place} is off", { place: spoken(edit.place) });
    case "set_mask": return t(edit.visible ? "{place}: {pair} may be seen" : "{place}: {pair} is masked", { place: spoken(step.place), pair: pair(...edit.index) });
    default: return t("{place}: temperature {value}", { place: step?.place ? spoken(step.place) : t("The output"), value: number(edit.value) });
  }
}

function spoken(place) {
  return placeName(place).join(", ");
}

function tokenText(app, id) {
  return app.translation?.tokens.find((token) => token.id === id)?.text ?? app.model.target_vocabulary[id] ?? String(id);
}
