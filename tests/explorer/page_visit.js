// The whole page in a stand-in for a browser, with a stand-in for the server.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setImmediate as later } from "node:timers/promises";
import { openPage } from "./page_document.js";
import { difference, formulas, modelOf, sources, traceOf, trainingOf, translationOf, windowOf } from "./page_answers.js";

let visits = 0;

let pending = 0; // requests under way

/** Wait until the page has done what it can do at once, and nothing is under way. */
export async function settle(turns = 3) {
  for (let quiet = 0; quiet < turns; quiet = pending ? 0 : quiet + 1) await later();
}

/** Answer requests; `asked` takes down each, and `refuse(name, body)` may return [status, answer], `alter(name, answer)` another answer or a changed one, `late(name, body)` for how many turns it is under way, and `rename` other texts of tokens. */
export function serve({ model = {}, trace = {}, training = {}, refuse = () => null, alter = (_, answer) => answer, late = () => 0, rename } = {}) {
  const asked = [], kept = new Map();
  const answers = {
    model: () => modelOf(model), sources: () => sources, formulas: () => formulas, difference: () => difference, translate: (body) => ({ ...translationOf(body), ...(model.alone ? { source: [] } : {}) }),
    trace: (body) => {
      const found = traceOf({ ...trace, ...body, id: `trace ${JSON.stringify([body.objective, body.edits, body.text, body.checkpoint])}`, ...(body.target ? { target: body.target.filter((id) => id !== 2) } : { target: undefined }) });
      kept.set(found.id, found);
      return found;
    },
    tensor: ({ trace: id, key, ...window }) => {
      const found = kept.get(id), plain = key.replace(/^d:/, ""), lines = found.steps.flatMap((step) => [...step.forward, ...step.backward]);
      return windowOf(key, [...found.steps, ...found.parameters, ...lines].find((one) => one.key === plain || one.key === key).shape, window);
    },
    training: ({ key, text }) => trainingOf(key, training, text),
  };
  globalThis.fetch = async (name, { body, ...options }) => {
    assert.deepEqual(options, { method: "POST", headers: { "Content-Type": "application/json" } });
    const given = JSON.parse(body), refused = refuse(name, given);
    if (refused === "stopped") throw new TypeError("Failed to fetch");
    asked.push([name, given]);
    pending += 1;
    for (let turns = late(name, given); turns >= 0; turns -= 1) await later();
    pending -= 1;
    const [status, answer] = refused ?? [200, alter(name, answers[name](given))];
    return { status, ok: status === 200, json: async () => JSON.parse(JSON.stringify(answer), rename && ((_, value) => (value?.text !== undefined && value.id !== undefined ? { ...value, text: rename(value.text) } : value))) };
  };
  return asked;
}

/** Open the page at an address; return its App, and what has been asked of the server. */
export async function visit(hash = "", { tour = false, saved = null, wide = true, height, across, motion = false, ...options } = {}) {
  const asked = serve(options);
  globalThis.across = across; // how wide elements are
  openPage(readFileSync("index.html", "utf8"), { hash: hash && `#${hash}`, ...options });
  globalThis.innerHeight = height;
  globalThis.matchMedia = (query) => ({ matches: (!motion && /reduce/.test(query)) || (wide && /min-width/.test(query)), addEventListener: () => {} });
  if (!tour) localStorage.setItem("explorer-tour-left", "yes");
  if (saved) {
    const element = document.createElement("script");
    element.setAttribute("id", "saved");
    element.textContent = JSON.stringify(saved);
    document.body.append(element);
  }
  const errors = [];
  globalThis.console = { ...console, error: (error) => errors.push(`error: ${error.message}`) };
  await import(`./app.js?${visits += 1}`);
  await settle();
  return { app: window.explorer, asked, errors };
}

/** Return choices as they stand in the address. */
export const address = (choices) => Object.entries(choices).map(([name, value]) => `${name}=${encodeURIComponent(typeof value === "string" ? value : JSON.stringify(value))}`).join("&");

/** What no page may say: a value that is missing, or the text of an error. */
const WRONG = /\bundefined\b|\bNaN\b|\bInfinity\b|\[object |[a-z]Error\b|Traceback|=null\b|“null”|could not be opened/;

/** Refuse lines that show something is wrong, unless they are to be there, and alerts on a page that nothing has refused. */
export function sound(lines, expected = () => false) {
  assert.deepEqual(lines.filter((line) => WRONG.test(line) && !expected(line)), []);
}

/** Return what the page says is wrong. */
export const alarms = () => document.querySelectorAll("[role=alert]").filter((one) => !one.hidden && one.textContent).map((one) => one.textContent);

/** Compare lines with those of a file; with DRAW=1 in the environment, write the file. */
export function compare(found, file) {
  sound(found);
  if (process.env.DRAW) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${found.join("\n")}\n`);
  }
  const wanted = readFileSync(file, "utf8").split("\n").slice(0, -1), at = Array.from({ length: Math.max(wanted.length, found.length) }, (_, i) => i).findIndex((i) => wanted[i] !== found[i]);
  if (at >= 0) assert.deepEqual(found.slice(at, at + 5), wanted.slice(at, at + 5), `line ${at + 1} of ${file}`);
}
