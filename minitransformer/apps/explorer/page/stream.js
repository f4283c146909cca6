// The residual stream: at each addition, how large its input is and how large what the sub-layer adds.

import { el, number } from "./dom.js";
import { placeName } from "./labels.js";
import { t } from "./words.js";

/** Return a table with one row for each residual connection inside a place. */
export function residualStream(app, place) {
  const backward = app.state.side === "backward";
  const norm = (key) => (backward ? app.step(key)?.gradient : app.step(key)?.value)?.norm ?? 0;
  const additions = app.stepsAt(place, true).filter((step) => step.operation === "add" && /residual\d$/.test(step.place));
  const rows = additions.map((step) => {
    const [x, added] = step.inputs.map((input) => input.key);
    return { step, x: norm(x), added: norm(added), sum: norm(step.key), sublayer: app.step(added) ?? step };
  });
  const most = Math.max(...rows.map((row) => Math.max(row.x, row.added, row.sum)), 1e-30);
  const bar = (value, kind) => {
    const fill = el("span", { class: `bar-fill ${kind}` });
    fill.style.width = `${100 * value / most}%`;
    return el("span", { class: "bar-track", "aria-hidden": "true" }, fill);
  };
  const mark = backward ? "d_" : "";
  return el("div", { class: "scroll" }, el("table", { class: "table stream figures" },
    el("thead", {}, el("tr", {}, [t("sub-layer"), `‖${mark}x‖`, `‖${mark}sub-layer(x)‖`, `‖${mark}sum‖`].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, rows.map(({ step, x, added, sum, sublayer }) => {
      const words = placeName(sublayer.place || step.place);
      return el("tr", {},
        el("th", { scope: "row" }, el("button", { type: "button", class: "link", onclick: () => app.set({ block: sublayer.place, value: null }) }, words.at(-1)),
          el("span", { class: "muted" }, ` ${words.slice(0, -1).join(" · ")}`)),
        [[x, "stream-x"], [added, "stream-added"], [sum, "stream-sum"]].map(([value, kind]) => el("td", {}, el("span", {}, number(value, 3)), bar(value, kind))));
    }))));
}
