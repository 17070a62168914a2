"use strict";
// Timelines: details under the pointer, search, and zoom. They are complete without this script.
(() => {
  const reading = () => document.getElementById("reading");
  const digits = (value) => {
    const size = Math.abs(value);
    return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
  };
  const time = (us) => {
    const size = Math.abs(us);
    if (size < 1e-9) return "0";
    if (size < 999.5) return digits(us) + " µs";
    if (size < 999.5e3) return digits(us / 1e3) + " ms";
    return digits(us / 1e6) + " s";
  };
  const element = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  };
  // `event`: where the pointer is, or a bar's corner.
  const show = (text, event) => {
    const box = reading(), lines = text.split("\n");
    const head = document.createElement("b"), list = document.createElement("dl");
    head.textContent = lines[0];
    for (const line of lines.slice(1)) {
      const at = line.indexOf(": ");
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = line.slice(0, at);
      dd.textContent = line.slice(at + 2);
      list.append(dt, dd);
    }
    box.replaceChildren(head, list);
    box.hidden = false;
    const size = box.getBoundingClientRect();
    const left = event.clientX + 16 + size.width > innerWidth ? event.clientX - size.width - 16 : event.clientX + 16;
    const top = event.clientY + 16 + size.height > innerHeight ? event.clientY - size.height - 16 : event.clientY + 16;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = Math.max(4, top) + "px";
  };

  for (const svg of document.querySelectorAll("svg.timeline")) {
    const rows = svg.querySelector(".rows"), axis = svg.querySelector(".time-axis");
    const total = Number(svg.dataset.total), left = Number(svg.dataset.left), width = Number(svg.dataset.width);
    const top = Number(svg.dataset.top), height = Number(svg.dataset.height);
    const unit = Number(svg.dataset.span) / total;
    let from = 0, to = total, begun = null;

    // The browser's own tooltip would appear late, next to this one.
    for (const bar of rows.querySelectorAll("rect")) {
      const title = bar.querySelector("title");
      if (title) { bar.dataset.title = title.textContent; title.remove(); }
    }

    const ticks = () => {
      const rough = (to - from) / 6, decade = Math.pow(10, Math.floor(Math.log10(rough)));
      const step = [1, 2, 5, 10].map((one) => one * decade).find((one) => one >= rough * (1 - 1e-9));
      axis.replaceChildren();
      for (let at = Math.ceil(from / step) * step; at <= to * (1 + 1e-12); at += step) {
        const x = left + (width * (at - from)) / (to - from);
        const name = element("text", { "text-anchor": x > left + width - 20 ? "end" : "middle", x: x.toFixed(1), y: top + height + 15 });
        name.textContent = time(at);
        axis.append(element("path", { class: "grid", d: "M" + x.toFixed(1) + " " + top + "v" + height }), name);
      }
    };
    const zoom = (low, high) => {
      from = Math.max(0, low);
      to = Math.min(total, high);
      if (to - from < 1) to = from + 1;
      rows.setAttribute("viewBox", from * unit + " 0 " + (to - from) * unit + " " + height);
      ticks();
    };
    const at = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return Math.min(1, Math.max(0, (point.x - left) / width));
    };
    const shade = element("rect", { class: "shade", y: top, height, visibility: "hidden" });
    svg.append(shade);

    svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType === "mouse") begun = at(event);
    });
    svg.addEventListener("pointermove", (event) => {
      if (begun !== null) {
        const now = at(event), low = Math.min(begun, now), high = Math.max(begun, now);
        shade.setAttribute("visibility", high - low > 0.004 ? "visible" : "hidden");
        shade.setAttribute("x", left + width * low);
        shade.setAttribute("width", width * (high - low));
      }
      const title = event.target.dataset && event.target.dataset.title;
      if (title) show(title, event); else reading().hidden = true;
    });
    const end = (event) => {
      shade.setAttribute("visibility", "hidden");
      if (begun === null) return;
      const now = at(event), low = Math.min(begun, now), high = Math.max(begun, now);
      begun = null;
      if (high - low > 0.004) zoom(from + (to - from) * low, from + (to - from) * high);
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointerleave", (event) => { end(event); reading().hidden = true; });
    svg.addEventListener("click", (event) => {
      const title = event.target.dataset && event.target.dataset.title;
      if (title) { show(title, event); event.stopPropagation(); }
    });
    svg.addEventListener("dblclick", () => zoom(0, total));
    const bars = [...rows.querySelectorAll("rect")].filter((bar) => bar.dataset.title);
    let chosen = -1;
    const choose = (step) => {
      if (bars.length === 0) return;
      if (chosen >= 0) bars[chosen].classList.remove("chosen");
      chosen = chosen < 0 && step < 0 ? bars.length - 1 : (chosen + step + bars.length) % bars.length;
      bars[chosen].classList.add("chosen");
      bars[chosen].scrollIntoView({ block: "nearest", inline: "nearest" });
      const box = bars[chosen].getBoundingClientRect();
      show(bars[chosen].dataset.title, { clientX: Math.max(0, Math.min(box.left, innerWidth)), clientY: box.bottom });
    };
    const leave = () => {
      if (chosen >= 0) bars[chosen].classList.remove("chosen");
      chosen = -1;
      reading().hidden = true;
    };
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const span = to - from, middle = (from + to) / 2;
      const moves = {
        ArrowDown: () => choose(1),
        ArrowUp: () => choose(-1),
        "+": () => zoom(middle - span / 4, middle + span / 4),
        "-": () => zoom(middle - span, middle + span),
        ArrowLeft: () => { const by = Math.min(from, span / 4); zoom(from - by, to - by); },
        ArrowRight: () => { const by = Math.min(total - to, span / 4); zoom(from + by, to + by); },
        Escape: () => { leave(); zoom(0, total); },
      };
      if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
    });

    const tools = svg.closest("section").querySelector(".tools");
    tools.hidden = false;
    tools.querySelector("input").addEventListener("input", (event) => {
      const word = event.target.value.trim().toLowerCase();
      const found = new Set();
      for (const name of svg.querySelectorAll("text.row")) {
        const is = word !== "" && name.dataset.name.includes(word);
        if (is) found.add(name.dataset.row);
        name.classList.toggle("found", is);
      }
      svg.classList.toggle("searched", word !== "");
      for (const bar of rows.querySelectorAll("rect")) bar.classList.toggle("found", found.has(bar.dataset.row));
    });
  }
})();
