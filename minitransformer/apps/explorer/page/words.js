// The words of the page. English stands where it is shown, t("Head {n}", { n: 3 }); a translation is a catalogue by the
// English text. What follows a bar, t("Source|sentence"), tells two meanings of a word apart and is not shown.

const LANGUAGES = ["en", "ko"];

/** The language of the page: that of the address, `?lang=ko`, or else that of the browser; English if there is no translation. */
export const language = globalThis.location ? chosen() : "en";
export const otherLanguage = LANGUAGES.find((one) => one !== language);

const { KO: CATALOGUE, SAID } = language === "ko" ? await import("./ko.js") : { KO: {}, SAID: {} };
const MESSAGES = Object.entries(SAID).map(([english, translation]) => [
  new RegExp(`^${english.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/\{(\w+)\}/g, "(?<$1>.+?)")}$`, "s"), translation]);

function chosen() {
  const asked = new URLSearchParams(location.search).get("lang");
  return LANGUAGES.find((one) => (asked === null ? navigator.language.startsWith(one) : asked === one)) ?? "en";
}

/** Return a text in the language of the page as parts, with values, which may be elements, in place of {names}. */
export function phrase(english, values = {}) {
  return (CATALOGUE[english] ?? english.replace(/\|.*$/, "")).split(/\{(\w+)\}/).map((part, i) => (i % 2 ? values[part] : part));
}

/** Return a text in the language of the page. */
export function t(english, values) {
  return phrase(english, values).join("");
}

/** Return a message of the server in the language of the page; a message without a translation stays as it is. */
export function said(message) {
  for (const [english, translation] of MESSAGES) {
    const found = english.exec(message);
    if (found) return translation.replace(/\{(\w+)\}/g, (_, name) => found.groups[name]);
  }
  return message;
}

/** Translate the texts and labels that stand in index.html. */
export function translatePage() {
  const other = document.getElementById("language");
  Object.assign(document.documentElement, { lang: language });
  Object.assign(other, { lang: otherLanguage, textContent: { en: "English", ko: "한국어" }[otherLanguage] });
  if (language === "en") return;
  for (const element of document.body.querySelectorAll("*")) {
    const label = element.getAttribute("aria-label"), { firstChild: text } = element;
    if (label in CATALOGUE) element.setAttribute("aria-label", CATALOGUE[label]);
    if (text?.nodeType === Node.TEXT_NODE && text.data in CATALOGUE) text.data = CATALOGUE[text.data];
  }
}

export const TOUR = {
  count: (n, all) => t("Tour, step {n} of {all}", { n, all }),
  back: t("Back"), next: t("Next"), leave: t("Leave the tour"), done: t("End the tour"),
  look: {
    title: (word) => t("What did “{word}” look at?", { word }),
    text: (n) => t("This is a Transformer with {n} parameters, taken apart: every number, its gradient, and the line that computes it. Point at a word below: what the model reads while it writes that word lights up.", { n }),
  },
  number: {
    title: () => t("Where does the number come from?"),
    text: (weight, head, word) => t("Head {head} gives “{word}” the weight {weight}. Follow it back: click weights, scores, Q or K. You see the numbers, the formula and the line of source.", { weight, head, word }),
  },
  gradient: {
    title: () => t("Its gradient, and the check beside it"),
    text: () => t("How does the loss change if this number changes? The gradient was derived by hand. Below it stands a central difference: the model run with the number a little larger, and a little smaller."),
  },
  off: {
    title: () => t("Switch a head off"),
    text: () => t("Click a picture to switch its head off. One head is seldom missed. Switch off all of them, and the translation breaks."),
    all: t("Switch off all heads"), reset: t("Switch them on"),
    saved: t("This file cannot compute anything new. Run `minitransformer explore RUN` to switch heads off."),
  },
  learn: {
    title: () => t("Watch it being learnt"),
    text: () => t("Move the slider, or press Play: the translation and the attention of the same text at each checkpoint of the training."),
  },
};
