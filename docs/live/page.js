// The page of an exercise: its editor, its buttons, and what it keeps in the browser.
// No modules: browsers refuse those of a page that is opened as a file.
"use strict";

const settings = JSON.parse(document.getElementById("settings").textContent);
const { words } = settings;
const find = (id) => document.getElementById(id);
const say = (text) => (find("status").textContent = text);

const engine = usable() && new Engine(settings, document.currentScript.src);
const ready = engine ? engine.ready : Promise.reject(new Error(find("status").textContent));
const wordsOf = (answer) => (answer.ended ? words[answer.ended] : answer.text);
const ask = async (...question) => (engine ? engine.ask(...question) : ready);
const failure = (error) => `${words.failed} (${error.message})`;

window.minitransformer = {
  ready: ready.then(() => {}),
  check: async (name, code) => wordsOf(await ask("check", name, code, settings.language)),
  run: async (code) => wordsOf(await ask("run", code)),
};
window.minitransformer.ready.catch(() => {});

if (engine) {
  say(words.loading);
  ready.then(() => say(words.ready), (error) => say(failure(error)));
}
if (settings.name) showExercise();

function usable() {
  if (location.protocol === "file:") return say(words.file) && false;
  if (typeof WebAssembly !== "object") return say(words.old) && false;
  return true;
}

function showExercise() {
  const [code, check, stop] = ["code", "check", "stop"].map(find);
  const key = `minitransformer:${settings.name}`;
  code.value = kept(key) ?? settings.start;
  code.addEventListener("input", () => keep(key, code.value));
  const start = code.value.split("\n").findIndex((line) => /^(def|class) /.test(line)); // the text above is the task
  code.scrollTop = (code.scrollHeight / code.value.split("\n").length) * start;
  const enable = () => (check.disabled = !engine);
  ready.then(enable, enable);

  async function judge() {
    if (check.disabled) return;
    check.disabled = true;
    stop.disabled = false;
    find("verdict").textContent = words.running;
    const question = ["check", settings.name, code.value, settings.language];
    const answer = await engine.ask(...question).catch((error) => ({ text: failure(error) }));
    find("verdict").textContent = wordsOf(answer);
    find("output").textContent = answer.printed ?? "";
    find("printed").hidden = find("output").hidden = !answer.printed;
    check.disabled = false;
    stop.disabled = true;
  }
  check.addEventListener("click", judge);
  stop.addEventListener("click", () => engine.stop());

  let leaving = false; // after Esc, Tab moves on as everywhere
  code.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) judge();
    if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      document.execCommand("insertText", false, "    "); // so that it can be undone
    }
    leaving = event.key === "Escape";
  });

  find("hint").addEventListener("click", () => {
    const shown = find("hints").children.length;
    find("hints").append(Object.assign(document.createElement("li"), { textContent: settings.hints[shown] }));
    find("hint").disabled = shown + 1 === settings.hints.length;
  });
  find("show").addEventListener("click", () => {
    find("solution").textContent = settings.solution;
    find("solution").hidden = false;
  });
}

function kept(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    find("unsaved").hidden = false;
    return null;
  }
}

function keep(key, text) {
  try {
    localStorage.setItem(key, text);
    find("unsaved").hidden = true;
  } catch {
    find("unsaved").hidden = false;
  }
}
