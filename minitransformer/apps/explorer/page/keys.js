// Keys of the trace: what they name, their shapes, and one entry of them.

import { t } from "./words.js";

/** Return Map(key -> shape) of what can be pointed at: parameters, outputs of steps and values inside them. */
export function shapesOf(trace) {
  const shapes = new Map();
  for (const { key, shape } of trace.parameters) shapes.set(key, shape);
  for (const step of trace.steps) {
    shapes.set(step.key, step.shape);
    for (const line of step.forward) shapes.set(line.key, line.shape);
  }
  return shapes;
}

/** Return the key whose gradient a key shows, or the key itself: d:KEY, or STEP:FUNCTION.d_NAME. */
export function forwardKey(key, shapes) {
  if (key.startsWith("d:")) return key.slice(2);
  const [, before, name] = /^(.*:\w+\.)d_([^:]*)$/.exec(key) ?? [];
  return name !== undefined && shapes.has(before + name) ? before + name : key;
}

/** Return an index from its text, "0, 3, 12"; throw an Error that says what is wrong. */
export function readIndex(text, shape, key) {
  const parts = text.split(/[\s,]+/).filter(Boolean);
  const index = parts.map(Number);
  if (index.length !== shape.length || index.some((i, axis) => !Number.isInteger(i) || i < 0 || i >= shape[axis])) {
    const ranges = shape.map((size) => `0–${size - 1}`).join(", "), n = shape.length;
    if (!n) throw new Error(t("{key}: found the index “{text}”, expected 0 whole numbers.", { key, text }));
    throw new Error(t(n === 1 ? "{key}: found the index “{text}”, expected {n} whole number in the ranges {ranges}." : "{key}: found the index “{text}”, expected {n} whole numbers in the ranges {ranges}.", { key, text, n, ranges }));
  }
  return index;
}

/** Return the value of one entry, undefined if the file does not hold it. */
export async function entryOf(app, key, index) {
  const [row, column] = index.length > 1 ? index.slice(-2) : [0, index[0] ?? 0];
  const { values, part } = await app.tensor(key, { at: index.slice(0, -2), rows: [row, row + 1], columns: [column, column + 1] });
  return part && !(part[0].includes(row) && part[1].includes(column)) ? undefined : values[0];
}

/** Return an edit that can begin from an entry, {kind, key or step, index}, or null: outputs, parameters, attention weights. */
export function draftOf(trace, { key, index }) {
  if ([...trace.parameters, ...trace.steps].some((one) => one.key === key)) return { kind: "set_entry", key, index };
  const step = trace.steps.find(({ forward }) => forward.some((line) => line.key === key && /^weights(\.\d+)?$/.test(line.name)));
  return step && index.length === 4 ? { kind: "set_weight", step: step.key, index } : null;
}

/** Return the key of an input of a step that neither a step nor a parameter holds, such as positions or a mask. */
export function constantKey(step, name) {
  return `${step.key}:${step.operation}.${name}`;
}

/** Tell whether a key names such an input. */
export function isConstant(trace, key) {
  return trace.steps.some((step) => step.inputs.some((input) => !input.key && constantKey(step, input.name) === key));
}
