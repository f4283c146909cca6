// The page in Korean, and the language that an address asks for.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { SELDOM, acting, saidIn } from "./page_acts.js";
import { element, outline, texts } from "./page_document.js";
import { savedOf } from "./page_answers.js";
import { address, compare, settle, visit } from "./page_visit.js";

const same = assert.deepEqual;
const page = await visit("", { search: "?lang=ko" }), { KO, SAID } = await import("./ko.js"), { said, t } = await import("./words.js"), { Heatmap } = await import("./heatmap.js");
Object.assign(acting, { t });

test("all that stands in index.html is Korean, and the button leads to English", () => {
  const [, body] = readFileSync("index.html", "utf8").split("<body>");
  for (const [, label, text] of body.matchAll(/aria-label="([^"]*)"|>([^<>\s][^<>\n]*)</g)) {
    const english = label ?? text, korean = KO[english];
    if (!korean || english === "Tour") continue;
    const found = label ? document.querySelectorAll("*").filter((one) => one.attributes["aria-label"] === korean) : document.querySelectorAll("*").filter((one) => one.firstChild?.data === korean);
    assert.ok(found.length, `${english}: ${korean}`);
    same(document.querySelectorAll("*").filter((one) => (label ? one.attributes["aria-label"] : one.firstChild?.data) === english).length, 0, english);
  }
  same([document.documentElement.lang, document.getElementById("language").lang, document.getElementById("language").textContent], ["ko", "en", "English"]);
  document.getElementById("language").click();
  same(location.search, "?lang=en");
});

test("what is drawn in Korean has no English but the names of the code", () => {
  const english = Object.keys(KO).filter((text) => !/[{|]/.test(text) && text.length > 3 && KO[text] !== text);
  const shown = new Set(outline(document.body)[0].flatMap((line) => line.match(/“[^”]*”|aria-label=[^=]*(?= \w+=|$)/g) ?? []).map((text) => text.replace(/^“|”$|^aria-label=/g, "").trim()));
  same([...shown].filter((text) => english.includes(text)), []);
  assert.ok(texts(document.body, "h2").includes(KO.Translation) && page.app.trace);
});

/** What is visited in Korean; all that is said there stands in `korean.txt`. */
const CROSS = "decoder.layers.0.cross_attention", MULTI = `${CROSS}/multi_head_attention`, edits = [{ kind: "head_off", step: MULTI, head: 1 }, { kind: "layer_off", place: "encoder.layers.0" }];
const VISITS = [[{}], [{ view: "block", block: CROSS, side: "backward", checkpoint: "20" }], [{ view: "block", block: "" }], [{ view: "walk", walk: "9" }], [{ view: "walk", walk: "6", side: "backward" }],
  [{ view: "edit", edits, prefix: "4" }], [{ view: "training", text: "x" }], [{ entry: `${MULTI}@0,0,1`, beam: "3" }], [{ side: "backward", objective: "difference:0:4:5", view: "attention" }],
  ...["1", "2", "3", "4", "5"].map((tour) => [{ tour }]), [{ view: "edit" }, { refuse: (name) => (name === "trace" ? "stopped" : null) }], [{}, { model: { alone: true, options: { norm: "pre", positions: "learned", n_kv_heads: 1 } }, trace: { alone: true, norm: "pre" } }],
  [{ view: "training", objective: "log_probability:0:4" }, { model: { checkpoints: [], weights: "best", options: { norm: "rms", positions: "rotary" } } }], [{ view: "training" }, { model: { checkpoints: [20], weights: "last" } }], [{}, { model: { weights: "average" } }], [{}, { model: { weights: "others" } }],
  [{ view: "edit", edits: [...edits, { ...edits[0], head: 0 }, { kind: "temperature", step: MULTI, value: 2 }, { kind: "set_mask", step: MULTI, index: [0, 1], visible: true }, { kind: "set_mask", step: MULTI, index: [1, 0], visible: false }] }], [{ view: "block", block: MULTI, edits, tour: "4" }], [{ view: "block", block: "target_embedding" }],
  ...[`${CROSS}@0`, `${MULTI}@0,9,1`, "/cross_entropy@0", `${MULTI}:multi_head_attention.mask@0,0,0,1`, `d:${MULTI}:multi_head_attention.d_q@0,0,0,1`].map((entry) => [{ entry }]), [{ text: "a" }, { refuse: (name) => (name === "translate" ? [500, {}] : null) }], [{ tour: "4" }, { saved: savedOf() }], [{ view: "block", block: CROSS }, { saved: savedOf() }]];

test("all that is said in Korean, which is every text that has a translation", async () => {
  const said = new Set(await saidIn([...VISITS, ...SELDOM], "?lang=ko", (text) => /[가-힣]/.test(text))), { IntersectionObserver } = globalThis;
  globalThis.IntersectionObserver = class { constructor() { throw new Error("x"); } };
  for (const text of await saidIn([[{ view: "attention" }]], "?lang=ko", (one) => one.startsWith(KO["This view could not be opened: {message}"].split("{")[0]))) said.add(text);
  Object.assign(globalThis, { IntersectionObserver });
  for (const shape of [[2, 2, 1], [2, 2, 2, 2, 2]]) {
    const map = new Heatmap({ say: (text) => said.add(text) }, element());
    await map.show({ shape, values: new Float32Array(32) });
    map.frame.listeners.keydown({ key: "PageDown", preventDefault: () => {} });
    for (const one of map.axes.querySelectorAll("span")) said.add(one.textContent.trim());
  }
  const pieces = (korean) => korean.split(/\{\w+\}|`/).map((piece) => piece.trim()).filter((piece) => /[가-힣]/.test(piece));
  const within = (piece) => {
    const found = new RegExp(`${/^[가-힣]/.test(piece) ? "(?<![가-힣])" : ""}${piece.replace(/[.*+?^$()|[\]\\]/g, "\\$&")}`);
    return [...said].some((text) => found.test(text));
  };
  same(Object.keys(KO).filter((english) => !pieces(KO[english]).every(within)), []);
  compare([...said], `${process.env.EXPLORER_TESTS}/korean.txt`);
});

test("messages of the server are translated, each of which the server has", () => {
  const folder = `${process.env.EXPLORER_TESTS}/../../minitransformer/apps/explorer`, plain = (text) => text.replace(/\{[^{}]*(\{[^{}]*\}[^{}]*)*\}/g, "{}");
  const source = readdirSync(folder).filter((name) => name.endsWith(".py")).map((name) => readFileSync(`${folder}/${name}`, "utf8")).join("").replace(/"\s+f?"/g, "").replaceAll('{"error": ', "");
  const messages = plain(source.replaceAll("{error}; choose", "it took more than {n} seconds and was stopped; choose").replaceAll("{self.counted}", "tokens, its end included")
    + source.replaceAll("{self.counted}", "tokens").replace(/\{f'.*?''\}/g, " ({word})") + source.replace(/\{f'.*?''\}/g, ""));
  const values = (text) => [...new Set(text.match(/\{\w+\}/g))].sort();
  for (const [english, korean] of Object.entries(SAID)) {
    assert.ok(messages.includes(plain(english)), english);
    same([values(korean), korean.split("`").length], [values(english), english.split("`").length], english);
  }
  same(["the text has 10,001 characters, expected at most 10,000", "the text has 9 tokens, its end included, expected at most 8; shorten it", "the text has 9 tokens, expected at most 8; shorten it", "token 3 ('x (y)') is unknown: the model reads <unk>",
    "trace: it took more than 60 seconds and was stopped; choose a shorter text or a smaller beam", "the text is empty, expected a sentence to translate", "something else", ""].map(said),
  ["문장이 10,001자입니다. 10,000자까지 쓸 수 있습니다.", "문장이 끝 토큰까지 9토큰입니다. 8토큰까지 쓸 수 있으니 줄이세요.", "문장이 9토큰입니다. 8토큰까지 쓸 수 있으니 줄이세요.", "3번째 토큰('x (y)')은 어휘에 없어서 모델이 <unk>로 읽습니다.",
    "trace: 60초가 넘어 중단했습니다. 더 짧은 문장이나 더 작은 빔을 고르세요.", "문장이 비었습니다. 번역할 문장을 쓰세요.", "something else", ""]);
});

test("what the server refuses is shown in Korean", async () => {
  await visit(address({ text: "a" }), { search: "?lang=ko", refuse: (name) => (name === "translate" ? [400, { error: "the text is empty, expected a sentence to translate" }] : null) });
  same(document.getElementById("banner").textContent, "문장이 비었습니다. 번역할 문장을 쓰세요.");
});

test("terms are those of the list of terms", () => {
  const cells = (row) => row.split("|").slice(1, 3).map((cell) => cell.replace(/\([^)]*\)/g, "").split(",").map((one) => one.trim()).filter(Boolean));
  const rows = readFileSync(`${process.env.EXPLORER_TESTS}/../../docs/korean-terms.md`, "utf8").split("\n").filter((line) => /^\| (?!한국어)/.test(line)).map(cells), terms = new Map();
  for (const [korean, english] of rows) for (const one of english) terms.set(one.toLowerCase(), [...(terms.get(one.toLowerCase()) ?? []), ...korean]);
  for (const meant of ["value", "target", "tensor", "score"]) terms.delete(meant); // these have other meanings on the page
  let found = 0;
  for (const [english, korean] of Object.entries(KO)) {
    for (const [term, words] of terms) {
      if (!new RegExp(`(?<![\\w-])${term}s?(?![\\w-])`).test(english.toLowerCase().replace(/\{\w+\}/g, ""))) continue;
      found += 1;
      assert.ok(words.some((one) => korean.replaceAll(" ", "").includes(one.replaceAll(" ", ""))), `${term} is ${words.join(" or ")}: ${english}: ${korean}`);
    }
  }
  assert.ok(found > 150, found);
});

/** Return the language of a page at an address, in a browser with a language of its own. */
async function languageAt(search, browser) {
  Object.assign(globalThis, { location: { search } });
  Object.defineProperty(globalThis, "navigator", { value: { language: browser }, configurable: true });
  const { language, otherLanguage } = await import(`./words.js?${search}${browser}`);
  return `${language} ${otherLanguage}`;
}

test("the language is that of the address, else that of the browser, else English", async () => {
  const table = { "": { "ko-KR": "ko en", en: "en ko", "de-DE": "en ko", "en-GB": "en ko" }, "?lang=ko": { en: "ko en" }, "?lang=en": { "ko-KR": "en ko" },
    "?lang=xx": { "ko-KR": "en ko", "fr": "en ko" }, "?lang=": { ko: "en ko" }, "?other=ko": { ko: "ko en", de: "en ko" } };
  for (const [search, cases] of Object.entries(table)) {
    for (const [browser, languages] of Object.entries(cases)) same(await languageAt(search, browser), languages, `${search} ${browser}`);
  }
});
