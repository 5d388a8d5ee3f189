// Streams completions and draws how full the states are.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const [form, text, status] = [at("form"), at("text"), at("status")];
  const kEvery = 8;  // tokens between two looks at the states
  const kPoints = 400;  // of the line, at most twice as many
  const kPause = 50;  // milliseconds between two pictures: tokens may come faster than a page can be laid out
  let running = null, ranks = [], history = [];  // ranks by layer and head, and the mean of all on the way
  let unseen = "", speed = "", timer = null;  // what is not shown yet, and when it will be

  const say = (message, problem = false) => {
    status.textContent = message;
    status.classList.toggle("problem", problem);
  };
  const headers = () => (at("key").value ? { Authorization: `Bearer ${at("key").value}` } : {});

  // {data: ...} events of a response, one by one.
  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        const data = rest.slice(0, end).replace(/^data: /, "");
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  }

  const svg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // An empty chart in units of pixels, with lines at ranks of 0, half and all of `top`; below it is room for names.
  function frame(chart, top) {
    const box = { left: 28, right: chart.clientWidth - 4, top: 8, bottom: chart.clientHeight - 20 };
    const y = (rank) => box.bottom - ((box.bottom - box.top) * rank) / top;
    const label = (text, x, at, anchor) => {
      const element = svg("text", { x, y: at, "text-anchor": anchor });
      element.textContent = text;
      return element;
    };
    chart.setAttribute("viewBox", `0 0 ${chart.clientWidth} ${chart.clientHeight}`);
    chart.replaceChildren(...[0, top / 2, top].flatMap((rank) => [
      svg("line", { x1: box.left, x2: box.right, y1: y(rank), y2: y(rank) }), label(String(rank), box.left - 6, y(rank) + 4, "end")]));
    return { ...box, y, below: (text, x, anchor = "middle") => chart.append(label(text, x, chart.clientHeight - 4, anchor)) };
  }

  function drawBars(layers) {
    const all = layers.flat(), most = Math.max(...all);
    const { left, right, bottom, y, below } = frame(at("bars"), Math.max(2, 2 * Math.ceil(most / 2)));
    const slot = Math.min(56, (right - left) / (all.length + (layers.length - 1) * 0.8 + 0.4));  // of a bar and its gap
    const used = slot * (all.length + (layers.length - 1) * 0.8);
    let x = left + (right - left - used) / 2;
    layers.forEach((heads, layer) => {
      const begin = x;
      heads.forEach((rank, head) => {
        const bar = svg("rect", { x: x + 0.1 * slot, width: 0.8 * slot, y: y(rank), height: Math.max(1, bottom - y(rank)) });
        bar.append(svg("title", {}));
        bar.firstChild.textContent = `layer ${layer}, head ${head}: ${rank.toFixed(2)}`;
        at("bars").append(bar);
        x += slot;
      });
      const room = x - begin + 0.8 * slot;
      if (room > 48) below(`layer ${layer}`, (begin + x) / 2);
      else if (room > 18 || layer % Math.ceil(18 / room) === 0) below(String(layer), (begin + x) / 2);
      x += 0.8 * slot;
    });
    at("bars-caption").textContent = `By layer and head, now: ${Math.min(...all).toFixed(1)} to ${most.toFixed(1)}`;
  }

  function drawLine() {
    const { left, right, y, below } = frame(at("line"), Math.max(2, 2 * Math.ceil(Math.max(...history) / 2)));
    const step = (right - left) / Math.max(1, history.length - 1);
    at("line").append(svg("polyline", { points: history.map((rank, i) => `${(left + i * step).toFixed(1)},${y(rank).toFixed(1)}`).join(" ") }));
    below("after the prompt", left, "start");
    below("now", right, "end");
    at("line-caption").textContent = `Mean over heads: ${history.at(-1).toFixed(2)} now, ${history[0].toFixed(2)} after the prompt`;
  }

  function drawRanks() {
    if (!ranks.length) return;
    at("ranks").hidden = false;
    drawBars(ranks);
    drawLine();
  }

  // Every point counts for twice as many tokens once there are too many; the first and the last remain.
  function addRanks(layers) {
    ranks = layers;
    if (history.length >= 2 * kPoints) history = history.filter((_, i) => i % 2 === 0);
    history.push(layers.flat().reduce((a, b) => a + b, 0) / layers.flat().length);
  }

  function show() {
    clearTimeout(timer);
    timer = null;
    if (unseen) at("made").append(unseen);
    unseen = "";
    if (speed) say(speed);
    drawRanks();
  }

  async function generate() {
    const body = {
      prompt: at("prompt").value, stream: true, stream_options: { include_usage: true }, x_effective_rank: kEvery,
      max_tokens: Number(at("max_tokens").value), temperature: Number(at("temperature").value), top_p: Number(at("top_p").value),
    };
    if (at("seed").value !== "") body.seed = Number(at("seed").value);
    if (at("stop").value !== "") body.stop = [at("stop").value.replaceAll("\\n", "\n")];
    at("given").textContent = body.prompt;
    at("made").textContent = "";
    ranks = [];
    history = [];
    unseen = speed = "";
    const start = performance.now();
    let first = null, pieces = 0, reason = "", rested = start;
    const seconds = () => (performance.now() - (first ?? start)) / 1000;
    running = new AbortController();
    const response = await fetch("/v1/completions", {
      method: "POST", headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(body), signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      timer ??= setTimeout(show, kPause);
      if (performance.now() - rested > kPause) {  // so that buttons answer, however fast events come
        await new Promise((resolve) => setTimeout(resolve));
        rested = performance.now();
      }
      if (event.x_effective_rank?.length) addRanks(event.x_effective_rank);
      if (event.usage) {
        const count = event.usage.completion_tokens, rate = count > 1 ? `, ${((count - 1) / seconds()).toFixed(1)} tokens/s` : "";
        speed = "";
        say(`${event.usage.prompt_tokens} tokens read, ${count} written${rate}${reason === "length" ? "" : `, ended: ${reason}`}`);
        continue;
      }
      const choice = event.choices[0];
      reason = choice.finish_reason ?? reason;
      if (!choice.text) continue;
      first ??= performance.now();
      unseen += choice.text;
      if (++pieces > 1) speed = `${((pieces - 1) / seconds()).toFixed(1)} tokens/s`;
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    at("go").disabled = true;
    at("halt").disabled = false;
    document.body.dataset.running = "yes";
    say("reading the prompt");
    try {
      await generate();
      show();
    } catch (error) {
      show();
      if (error.name === "AbortError") say(`stopped; ${status.textContent}`);
      else say(error.message, true);
    }
    running = null;
    at("go").disabled = false;
    at("halt").disabled = true;
    document.body.dataset.running = "no";
  });
  at("halt").addEventListener("click", () => running?.abort());
  at("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const name = () => fetch("/v1/models", { headers: headers() }).then((response) => (response.ok ? response.json() : null))
    .then((list) => { at("model").textContent = list?.data[0].id ?? "needs an API key"; }).catch(() => {});
  at("key").addEventListener("change", name);
  addEventListener("resize", drawRanks);
  name();
})();
