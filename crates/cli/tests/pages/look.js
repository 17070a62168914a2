// What is wrong with a page as it is shown: sentences. `paper`: it is shown as on paper.
(paper) => {
  const wrong = [], width = innerWidth;
  const say = (what) => { if (wrong.length < 40) wrong.push(what); };
  const name = (element) => {
    const section = element.closest("section");
    return (section ? section.id + ": " : "") + (element.getAttribute("aria-label") || element.className.baseVal || element.className || element.tagName).slice(0, 50);
  };
  const page = document.documentElement.scrollWidth;
  if (page > width) say("the page is " + page + " px wide");
  for (const table of document.querySelectorAll(".table")) {
    if (width >= 1000 && table.scrollWidth > table.clientWidth) say(name(table) + ": " + table.scrollWidth + " px of table in " + table.clientWidth);
  }
  for (const svg of document.querySelectorAll("svg")) {
    if (svg.parentElement.closest("svg")) continue;
    const label = svg.getAttribute("aria-label") || (svg.querySelector(":scope > title") || {}).textContent;
    if (svg.getAttribute("role") !== "img" || !label) say(name(svg) + ": no text alternative");
    const frame = svg.getBoundingClientRect(), scale = svg.getScreenCTM().a;
    if (frame.width === 0) {
      // One of two shapes; the other is shown.
      if (![...svg.parentElement.children].some((other) => other.clientWidth > 0)) say(name(svg) + ": is not shown");
      continue;
    }
    if (paper) {
      // A chart that nothing may break and that fits on a page is not cut.
      let block = svg;
      while (block && getComputedStyle(block).breakInside !== "avoid") block = block.parentElement;
      if (!block) say(name(svg) + ": may be cut between pages");
      else if (block.getBoundingClientRect().height > innerHeight) say(name(svg) + ": higher than a page, " + block.getBoundingClientRect().height);
    }
    const texts = [];
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect(), style = getComputedStyle(text);
      if (box.width === 0 || style.visibility === "hidden") continue;
      const words = "\"" + text.textContent + "\"", size = parseFloat(style.fontSize) * scale;
      // 7 px on paper are 5 points.
      if (size < (paper ? 7 : 9)) say(name(svg) + ": " + words + " is " + size.toFixed(1) + " px high");
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2) {
        say(name(svg) + ": " + words + " leaves the chart");
      }
      // Letters fill about the middle two thirds of the line's height.
      const rim = box.height / 6;
      texts.push({ words, left: box.left + 1, right: box.right - 1, top: box.top + rim, bottom: box.bottom - rim });
    }
    texts.forEach((one, place) => {
      for (const other of texts.slice(place + 1)) {
        if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom) {
          say(name(svg) + ": " + one.words + " overlaps " + other.words);
        }
      }
    });
  }
  return wrong;
}
