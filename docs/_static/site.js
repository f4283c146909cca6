// A table that does not fit its column is shown as blocks, one for each row. Each cell then says what its column is called.
const TALL = 130; // pixels: a row of narrow columns with seven lines of text reads better as a block

function nameCells(table) {
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.children].forEach((cell, place) => (cell.dataset.column = names[place] || ""));
  }
}

function stackTables() {
  for (const table of document.querySelectorAll("article table:has(thead)")) {
    table.classList.remove("stacked");
    const narrow = window.innerWidth < 700 && [...table.rows].some((row) => row.offsetHeight > TALL);
    table.classList.toggle("stacked", narrow || table.scrollWidth > table.clientWidth + 1);
  }
}

window.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("article table:has(thead)").forEach(nameCells);
  stackTables();
});
window.addEventListener("resize", stackTables);
// Formulas change the width of a table when they are rendered.
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(stackTables));
