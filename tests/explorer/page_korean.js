// The page in Korean, and the language that an address asks for.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { outline, texts } from "./page_document.js";
import { visit } from "./page_visit.js";

const same = assert.deepEqual;
const page = await visit("", { search: "?lang=ko" }), { KO } = await import("./ko.js");

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
