// Names: of places for people, of the rows and columns of a tensor.

import { t } from "./words.js";

const WORDS = {
  encoder: t("encoder"), decoder: t("decoder"), self_attention: t("self-attention"), cross_attention: t("cross-attention"), feed_forward: t("feed-forward network"),
  source_embedding: t("source embedding"), target_embedding: t("target embedding"), layer_norm: t("norm"), final_norm: t("final norm"),
};

/** Return a place in words, from the outside in: ["Decoder", "layer 2", "cross-attention"]. */
export function placeName(place) {
  if (!place) return [t("Model")];
  const names = place.split(".").flatMap((part) => {
    if (part === "layers") return [];
    if (/^\d+$/.test(part)) return [t("layer {n}", { n: +part + 1 })];
    const residual = part.match(/^residual(\d)$/);
    return [residual ? t("residual connection {n}", { n: residual[1] }) : WORDS[part] ?? part.replaceAll("_", " ")];
  });
  names[0] = names[0][0].toUpperCase() + names[0].slice(1);
  return names;
}

const SETS = { mean: t("the mean of the weights over the last steps"), average: t("the mean of the last checkpoints"), best: t("the best weights"), last: t("the last weights") };

/** Return which weights are shown, in words. */
export function weightsName({ model, state }) {
  return state.checkpoint === null ? SETS[model.weights] ?? t("the weights “{weights}”", model) : t("the weights after step {checkpoint}", state);
}

/** Tell whether a model is a decoder alone, which continues a text. */
export function isAlone(model) {
  return !model.places.some(({ place }) => place === "encoder");
}

/** Return the place in a key: all before the slash; of a parameter, all before its name. */
export function placeOf(key) {
  const plain = key.replace(/^d:/, "");
  const slash = plain.indexOf("/");
  return slash >= 0 ? plain.slice(0, slash) : plain.slice(0, Math.max(plain.lastIndexOf("."), 0));
}

const MOST_CHOICES = 2000; // a longer list would be slow

/** Return the tokens of a choice, [id, text]: the first of the vocabulary, and those of the translation with its alternatives. */
export function tokenChoices({ model, translation, trace }) {
  const written = (translation?.tokens ?? []).flatMap((one) => [one, ...one.alternatives]);
  const texts = new Map(model.target_vocabulary.slice(0, MOST_CHOICES).map((text, id) => [id, text]));
  for (const { id, text } of [...trace.target_out, ...written]) texts.set(id, text);
  return [...texts];
}

const WEIGHTS = /^(d_)?(weights|scores|products|seen|earlier)/;

/** Return what the rows and columns of a value are called, as functions, null where they have no names. */
export function names(app, key, shape) {
  const plain = key.replace(/^d:/, ""), place = placeOf(key), { trace, model } = app;
  const inside = plain.includes(":") ? plain.slice(plain.indexOf(":") + 1) : "";
  const [operation, ...rest] = inside.split("."), name = rest.join(".");
  const source = trace.source.map((one) => one.text), target = trace.target_in.map((one) => one.text);
  const [rows, columns] = [shape.length > 1 ? shape.at(-2) : 1, shape.at(-1)];
  const list = (texts) => (i) => texts[i] ?? "";
  if (!plain.includes("/") && plain.endsWith("table")) {
    const vocabulary = plain.startsWith("source") ? model.source_vocabulary : model.target_vocabulary;
    return [vocabulary.length === rows ? list(vocabulary) : null, null];
  }
  if (!plain.includes("/")) return [null, null];
  const encoder = place.startsWith("encoder") || place.startsWith("source");
  const cross = place.endsWith("cross_attention");
  const keys = encoder || cross ? source : target;
  const square = operation === "softmax" || name === "mask" || (/attention$/.test(operation) && name === "bias")
    || (operation === "scaled_dot_product_attention" && WEIGHTS.test(name));
  // A row of weights is named by the token that is written there, as in the attention view.
  const queries = encoder ? source : square ? trace.target_out.map((one) => one.text) : target;
  const ofKeys = cross && /^(d_)?([kv](_turned|_heads)?|memory|keys|values|keys_values)(\.|$)/.test(name);
  // The logits of a position score the token that follows it.
  const scored = trace.target_out.map(({ text }, i) => `${target[i]} → ${text}`);
  const rowNames = place === "" && rows === scored.length ? scored : ofKeys ? keys : rows === queries.length ? queries : rows === keys.length && cross ? keys : null;
  const columnNames = square && columns === keys.length ? keys
    : /^(ids|targets|counts)$/.test(name) && columns === queries.length ? (name === "ids" ? queries : trace.target_out.map((one) => one.text))
    : place === "" && columns === model.target_vocabulary.length && shape.length > 1 ? model.target_vocabulary : null;
  return [shape.length > 1 && rowNames ? list(rowNames) : null, columnNames ? list(columnNames) : null];
}
