// Streams completions and draws how full the states are.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const [form, text, status] = [at("form"), at("text"), at("status")];
  const kEvery = 8;  // tokens between two looks at the states
  let running = null, history = [];

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

  function drawRanks(layers) {
    if (!layers.length) return;
    at("ranks").hidden = false;
    const all = layers.flat(), most = Math.max(...all, 1);
    const width = all.length + (layers.length - 1) * 0.8;
    const bars = at("bars");
    bars.setAttribute("viewBox", `0 0 ${width} 100`);
    bars.setAttribute("preserveAspectRatio", "none");
    const marks = [];
    let x = 0;
    layers.forEach((heads, layer) => {
      heads.forEach((rank, head) => {
        const height = Math.max(1, (100 * rank) / most);
        const bar = svg("rect", { x: x + 0.1, width: 0.8, y: 100 - height, height, class: layer % 2 ? "odd" : "even" });
        bar.append(svg("title", {}));
        bar.firstChild.textContent = `layer ${layer}, head ${head}: ${rank.toFixed(2)}`;
        marks.push(bar);
        x += 1;
      });
      x += 0.8;
    });
    bars.replaceChildren(...marks);
    at("bars-caption").textContent = `${layers.length} layers, now; the largest is ${most.toFixed(1)}`;

    history.push(all.reduce((a, b) => a + b, 0) / all.length);
    const top = Math.max(...history, 1), step = 100 / Math.max(1, history.length - 1);
    const line = at("line");
    line.setAttribute("viewBox", "0 0 100 100");
    line.setAttribute("preserveAspectRatio", "none");
    line.replaceChildren(svg("polyline", { points: history.map((rank, i) => `${(i * step).toFixed(2)},${(98 - (94 * rank) / top).toFixed(2)}`).join(" ") }));
    at("line-caption").textContent = `Mean over heads: ${history.at(-1).toFixed(2)} now, from ${history[0].toFixed(2)} after the prompt`;
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
    history = [];
    const start = performance.now();
    let first = null, pieces = 0, reason = "";
    const seconds = () => (performance.now() - (first ?? start)) / 1000;
    running = new AbortController();
    const response = await fetch("/v1/completions", {
      method: "POST", headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(body), signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      if (event.x_effective_rank) drawRanks(event.x_effective_rank);
      if (event.usage) {
        const count = event.usage.completion_tokens, speed = count > 1 ? `, ${((count - 1) / seconds()).toFixed(1)} tokens/s` : "";
        say(`${event.usage.prompt_tokens} + ${count} tokens${speed}${reason === "length" ? "" : `, ended: ${reason}`}`);
        continue;
      }
      const choice = event.choices[0];
      reason = choice.finish_reason ?? reason;
      if (!choice.text) continue;
      first ??= performance.now();
      at("made").append(choice.text);
      if (++pieces > 1) say(`${((pieces - 1) / seconds()).toFixed(1)} tokens/s`);
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
    } catch (error) {
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
  name();
})();
