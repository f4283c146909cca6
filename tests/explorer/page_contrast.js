// Return the texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, level AA), each with its contrast.
() => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (above, below) => below.map((value, i) => above[i] * above[3] + value * (1 - above[3]));
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, own = getComputedStyle(element), drawn = element.namespaceURI.includes("svg");
    const { width, height } = element.getBoundingClientRect();
    if (!walker.currentNode.textContent.trim() || !width || !height || own.visibility !== "visible" || element.closest(":disabled, :root [inert]")) continue;
    let below = [255, 255, 255], opacity = 1;
    const around = [];
    for (let parent = element; parent; parent = parent.parentElement) around.unshift(parent);
    for (const parent of around) {
      const style = getComputedStyle(parent);
      below = over(read(style.backgroundColor), below);
      opacity *= style.opacity;
    }
    const form = drawn && element.closest(".block")?.querySelector(".form");
    if (form) below = over(read(getComputedStyle(form).fill), below);
    const colour = read(drawn ? own.fill : own.color), shown = over([...colour.slice(0, 3), colour[3] * opacity], below);
    const [dark, bright] = [light(shown), light(below)].sort((a, b) => a - b), contrast = (bright + 0.05) / (dark + 0.05);
    if (contrast < 4.5) found.push(`${element.tagName}.${element.getAttribute("class") ?? ""} “${walker.currentNode.textContent}”: ${contrast.toFixed(2)}`);
  }
  return found;
}
