// Charts whose datapoints the keyboard does not reach, each in a sentence.
() => {
  const wrong = [];
  const reading = document.getElementById("reading");
  const reached = (svg, key, presses, state) => {
    const seen = new Set();
    svg.focus();
    if (document.activeElement !== svg) return seen;
    for (let press = 0; press < presses; press++) {
      svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      if (!reading.hidden) seen.add(state(svg));
    }
    return seen;
  };
  const compare = (svg, seen, drawn) => {
    if (seen !== drawn) wrong.push((svg.getAttribute("aria-label") || "").slice(0, 50) + ": the keyboard reaches " + seen + " of " + drawn);
  };
  for (const svg of document.querySelectorAll("svg.plot")) {
    let drawn = 0;
    for (const dots of svg.querySelectorAll(".dots")) drawn += dots.dataset.outliers.split(" ").length;
    if (drawn === 0) continue;
    const state = () => {
      const ring = svg.querySelector(".ring");
      return [ring.getAttribute("cx"), ring.getAttribute("cy"), reading.textContent].join(" ");
    };
    compare(svg, reached(svg, "ArrowRight", drawn + 2, state).size, drawn);
  }
  for (const svg of document.querySelectorAll("svg.timeline")) {
    const bars = svg.querySelectorAll(".rows rect[data-title]");
    const chosen = () => [...bars].indexOf(svg.querySelector(".rows rect.chosen"));
    compare(svg, reached(svg, "ArrowDown", bars.length + 2, chosen).size, bars.length);
  }
  return wrong;
}
