"use strict";
// Reads figures off the charts: the nearest single datapoint with all its fields, otherwise the cell
// or position under the pointer. Charts are complete without this script; text is set as text, never
// as markup.
(() => {
  const results = JSON.parse(document.getElementById("outliers").textContent);
  const reading = document.getElementById("reading");
  const NEAR = 14; // px
  let byKeyboard = false;

  const digits = (value) => {
    const size = Math.abs(value);
    return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
  };
  const duration = (ns) => {
    const size = Math.abs(ns);
    if (size < 999.5) return digits(ns) + " ns";
    if (size < 999.5e3) return digits(ns / 1e3) + " µs";
    if (size < 999.5e6) return digits(ns / 1e6) + " ms";
    return digits(ns / 1e9) + " s";
  };
  const quantities = {
    duration,
    percent: (value) => digits(value) + " %",
    share: (value) => Number((value * 100).toPrecision(2)) + " %",
    watts: (value) => digits(value) + " W",
    number: (value) => digits(value),
    "one-in": (value) => (value >= 1 ? "all" : "1 in " + Math.round(1 / value)),
  };

  // The inverse of the axis that the drawing was made with.
  const axis = (text) => {
    const [scale, min, max, quantity] = text.split(" ");
    const low = Number(min), high = Number(max);
    return {
      at: (place) => (scale === "log" ? low * Math.pow(high / low, place) : low + place * (high - low)),
      text: quantities[quantity],
    };
  };

  const field = (column, place) => {
    const value = column.values[place];
    if (value === null) return null;
    if (column.names) return [column.name.replaceAll("_", " "), column.names[value]];
    if (column.name.endsWith("_ns")) return [column.name.slice(0, -3).replaceAll("_", " "), duration(value) + (Math.abs(value) >= 1000 ? " (" + value.toLocaleString("en").replaceAll(",", "\u202f") + " ns)" : "")];
    if (column.name.endsWith("_percent")) return [column.name.slice(0, -8).toUpperCase(), value + " %"];
    return [column.name.replaceAll("_", " "), String(value)];
  };

  const show = (title, pairs, x, y) => {
    reading.replaceChildren();
    const head = document.createElement("b");
    head.textContent = title;
    const list = document.createElement("dl");
    for (const [name, value] of pairs) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      list.append(dt, dd);
    }
    reading.append(head, list);
    reading.hidden = false;
    const box = reading.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - box.width - 16 : x + 16;
    const top = y + 16 + box.height > innerHeight ? y - box.height - 16 : y + 16;
    reading.style.left = Math.max(4, Math.min(left, innerWidth - box.width - 4)) + "px";
    reading.style.top = Math.max(4, top) + "px";
  };

  for (const svg of document.querySelectorAll("svg.plot")) {
    const x = axis(svg.dataset.x), y = axis(svg.dataset.y);
    const frame = svg.querySelector(".axis").getBBox();
    const cells = svg.querySelector(".cells");
    let dots = null, ring = null, chosen = -1;

    // Read from the paths on first use: most charts are never pointed at.
    const load = () => {
      if (dots) return dots;
      dots = [];
      for (const path of svg.querySelectorAll(".dots")) {
        const outliers = path.dataset.outliers.split(" ");
        const places = path.getAttribute("d").match(/M[^h]+/g) || [];
        places.forEach((place, at) => {
          const [left, top] = place.slice(1).split(" ").map(Number);
          dots.push({ x: left, y: top, outlier: Number(outliers[at]) });
        });
      }
      dots.sort((a, b) => a.x - b.x || a.y - b.y);
      return dots;
    };
    const mark = (dot) => {
      if (!ring) {
        ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
        ring.setAttribute("class", "ring");
        ring.setAttribute("r", "6");
        svg.append(ring);
      }
      ring.setAttribute("visibility", dot ? "visible" : "hidden");
      if (dot) { ring.setAttribute("cx", dot.x); ring.setAttribute("cy", dot.y); }
    };
    const showDot = (dot, left, top) => {
      const result = results[Number(svg.dataset.result)];
      mark(dot);
      show("One datapoint of " + result.title, result.columns.map((column) => field(column, dot.outlier)).filter(Boolean), left, top);
    };
    const hide = () => { reading.hidden = true; mark(null); };

    const at = (event) => {
      byKeyboard = false;
      const matrix = svg.getScreenCTM();
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      let nearest = null, least = NEAR / matrix.a;
      for (const dot of load()) {
        const distance = Math.hypot(dot.x - point.x, dot.y - point.y);
        if (distance < least) { least = distance; nearest = dot; }
      }
      if (nearest) { chosen = dots.indexOf(nearest); showDot(nearest, event.clientX, event.clientY); return; }
      mark(null);
      const across = (point.x - frame.x) / frame.width, up = 1 - (point.y - frame.y) / frame.height;
      if (across < 0 || across > 1 || up < 0 || up > 1) { hide(); return; }
      if (cells) {
        const levels = cells.dataset.levels.split(" ").map(Number);
        const place = [...cells.children].indexOf(event.target);
        if (place < 0) { hide(); return; }
        const [wide, high] = cells.dataset.size.split(" ").map(Number);
        const column = Math.min(wide - 1, Math.floor(across * wide)), row = Math.min(high - 1, Math.floor(up * high));
        const range = (scale, low, of) => scale.text(scale.at(low / of)) + " to " + scale.text(scale.at((low + 1) / of));
        const most = place + 1 < levels.length ? levels[place + 1] - 1 : null;
        const number = most === null ? levels[place] + " or more" : most === levels[place] ? String(most) : levels[place] + " to " + most;
        show(number + (most === 1 ? " datapoint" : " datapoints"), [
          [svg.dataset.xName, range(x, column, wide)],
          [svg.dataset.yName, range(y, row, high)],
        ], event.clientX, event.clientY);
        return;
      }
      show("At this place", [[svg.dataset.xName, x.text(x.at(across))], [svg.dataset.yName, y.text(y.at(up))]], event.clientX, event.clientY);
    };

    svg.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") at(event); });
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    svg.addEventListener("click", (event) => { at(event); event.stopPropagation(); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || load().length === 0) return;
      event.preventDefault();
      byKeyboard = true;
      chosen = chosen < 0 ? (step > 0 ? 0 : dots.length - 1) : (chosen + step + dots.length) % dots.length;
      const place = new DOMPoint(dots[chosen].x, dots[chosen].y).matrixTransform(svg.getScreenCTM());
      showDot(dots[chosen], place.x, place.y);
    });
  }
  document.addEventListener("click", () => { reading.hidden = true; });
  // The pointer is over something else now; the keyboard's choice stays.
  addEventListener("scroll", () => { if (!byKeyboard && !document.querySelector(".chosen")) reading.hidden = true; }, { passive: true });

  const button = document.getElementById("theme");
  const themes = ["automatic", "light", "dark"];
  let theme = 0;
  // A page opened from a file may have no storage; the choice then lasts as long as the page.
  const remember = (value) => { try { if (value !== undefined) localStorage.setItem("reveille-theme", value); return localStorage.getItem("reveille-theme"); } catch { return null; } };
  const apply = () => {
    if (theme === 0) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = themes[theme];
    button.textContent = "Theme: " + themes[theme];
  };
  theme = Math.max(0, themes.indexOf(remember() ?? document.documentElement.dataset.theme));
  apply();
  button.hidden = false;
  button.addEventListener("click", () => { theme = (theme + 1) % themes.length; remember(themes[theme]); apply(); });
})();
