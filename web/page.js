// Draws the charts that C++ described, in the reader's colours and the chosen settings, sorts tables, and walks
// words through graphs.
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const choices = [...document.querySelectorAll(".choices")];
  const views = new Map();  // element -> what vega-embed gave for it

  const chosen = () => new Set(choices.flatMap((form) => [...new FormData(form).values()]));
  const variantOf = (element) => {
    const variants = page.charts[Number(element.dataset.chart)];
    const now = chosen();
    return variants.find((variant) => variant.when.every((choice) => now.has(choice)));
  };

  async function draw(element) {
    const variant = variantOf(element);
    const style = getComputedStyle(document.body);
    const line = style.getPropertyValue("--line"), quiet = style.getPropertyValue("--quiet");
    const look = {
      background: "transparent",
      font: style.fontFamily,
      view: { stroke: null },
      axis: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", domainColor: quiet, tickColor: quiet, gridColor: line },
      legend: { labelFontSize: 12 },
      title: { fontSize: 15, subtitleFontSize: 12, subtitlePadding: 4, limit: element.clientWidth - 90 },
      text: { color: style.color }, rule: { color: style.color },
    };
    views.get(element)?.finalize();
    views.set(element, await vegaEmbed(element, { ...variant.spec, datasets: page.data[variant.data] }, {
      mode: "vega-lite",
      renderer: "svg",
      theme: dark.matches ? "dark" : undefined,
      config: look,
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: `${variant.spec.title.text} ${variant.spec.title.subtitle}`.replace(/[^\w]+/g, "-"),
      tooltip: { theme: dark.matches ? "dark" : "light" },
    }));
  }

  const elements = [...document.querySelectorAll("[data-chart]")];
  async function drawAll(which = elements) {
    document.body.dataset.drawn = "no";
    for (const element of which) await draw(element);
    document.body.dataset.drawn = "yes";
  }
  // One after the other: a change while drawing waits for its turn.
  let turn = Promise.resolve();
  const redraw = (which) => { turn = turn.then(() => drawAll(which)); };
  redraw();
  dark.addEventListener("change", () => redraw());
  for (const form of choices)
    form.addEventListener("change", () => redraw(elements.filter((element) => page.charts[Number(element.dataset.chart)].length > 1)));

  const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  document.querySelectorAll("th").forEach((header) => {
    const column = header.cellIndex;
    const button = document.createElement("button");
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const sign = header.ariaSort === "ascending" ? -1 : 1;
      for (const other of header.parentNode.children) other.ariaSort = null;
      header.ariaSort = sign > 0 ? "ascending" : "descending";
      const body = header.closest("table").tBodies[0];
      const value = (row) => row.cells[column].dataset.value;
      body.append(...[...body.rows].sort((a, b) => sign * compare(value(a), value(b))));
    });
  });

  // A word walked: the slider's position is how many symbols have been read.
  document.querySelectorAll(".walk").forEach((walk) => {
    const controls = walk.querySelector(".controls"), slider = controls.querySelector("input");
    const button = controls.querySelector("button"), output = controls.querySelector("output");
    const steps = [...walk.querySelectorAll(".strip li")];
    let timer = null;
    const mark = (element, visited, now) => {
      element.classList.toggle("visited", visited);
      element.classList.toggle("now", now);
    };
    const show = (time) => {
      slider.value = time;
      const { state, edge, status } = steps[time].dataset;
      const past = steps.slice(0, time + 1).map((step) => step.dataset);
      steps.forEach((step, index) => mark(step, index <= time, index === time));
      for (const circle of walk.querySelectorAll("svg [data-state]"))
        mark(circle, past.some((step) => step.state === circle.dataset.state), circle.dataset.state === state);
      for (const arrow of walk.querySelectorAll("svg [data-edge]"))
        mark(arrow, past.some((step) => step.edge === arrow.dataset.edge), arrow.dataset.edge === edge);
      output.textContent = status;
    };
    const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
    const last = steps.length - 1;
    slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
    steps.forEach((step, index) => step.addEventListener("click", () => { stop(); show(index); }));
    button.addEventListener("click", () => {
      if (timer !== null) return stop();
      if (Number(slider.value) === last) show(0);
      button.textContent = "Pause";
      timer = setInterval(() => {
        show(Math.min(last, Number(slider.value) + 1));
        if (Number(slider.value) === last) stop();
      }, 800);
    });
    controls.hidden = false;
    show(0);
  });

  // A link to a run opens its settings.
  const open = () => { const run = document.getElementById(location.hash.slice(1)); if (run instanceof HTMLDetailsElement) run.open = true; };
  addEventListener("hashchange", open);
  open();
})();
