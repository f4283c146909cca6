// A table that does not fit its column is shown as blocks, one for each row. Each cell then says what its column is called.
const TALL = 130; // pixels: a row of narrow columns with seven lines of text reads better as a block

function nameCells(table) {
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.children].forEach((cell, place) => {
      cell.dataset.column = names[place] || "";
      cell.classList.toggle("nothing", !cell.textContent.trim());
    });
  }
}

function stackTables() {
  for (const table of document.querySelectorAll("article table:has(thead)")) {
    table.classList.remove("stacked");
    const narrow = window.innerWidth < 700 && [...table.rows].some((row) => row.offsetHeight > TALL);
    table.classList.toggle("stacked", narrow || table.offsetWidth > table.parentElement.clientWidth + 1);
  }
}

// A wide picture keeps a legible size on a phone, and scrolls in its own box.
function widenPictures() {
  for (const picture of document.querySelectorAll("article img")) {
    picture.parentElement.classList.toggle("wide-picture", window.innerWidth < 700 && picture.naturalWidth > 900);
  }
}

window.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("article table:has(thead)").forEach(nameCells);
  stackTables();
});
window.addEventListener("load", widenPictures);
window.addEventListener("resize", () => [stackTables, widenPictures].forEach((change) => change()));
// Formulas change the width of a table when they are rendered.
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(stackTables));
