// Mathematics is drawn after the page has been shown and moves what is below it: go once more to where the link leads.
window.addEventListener("load", async () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || !window.MathJax?.startup) return;
  await MathJax.startup.promise;
  target.scrollIntoView();
});
