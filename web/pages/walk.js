// Follows a word through a compiled model: the states or products after each symbol, and what each symbol does to the model's state.
import { h, note, table, toDom } from "./elements.js";
import { drawAutomaton, MOST_DRAWN_STATES, parseWord, stepper, wordText } from "./automaton.js";
import { describeMap, describeMatrix, geometryOf, identityMatrix, multiplyMatrices } from "./geometry.js";

const LONGEST_WORD = 400, RANDOM_WORD = 12, MOST_BUTTONS = 24;

// What happens along a word: [{symbol, state, answer, applies, total}], the first before any symbol. `answer` is the model's own for the
// example; of other words it is what the table says. `applies` and `total` describe maps, where they are known.
export function followWord(data, word) {
  const next = stepper(data.automaton), { alphabet, states, start, accepting } = data.automaton, { maps } = data;
  const example = word.join() === data.walk.word.join(), geometry = maps ? geometryOf(maps) : null;
  const mapOf = (symbol, i) =>
    (!maps ? null : maps.along_word ? (example ? maps.maps[i] : null) :
      maps.maps.find((map) => map.element === data.automaton.elements[symbol]) ?? null);
  const total = (geometry === "plane" || geometry === "rotations") && !maps.along_word ? identityMatrix(maps.dimension) : null;
  const steps = [{ state: start, total: null }];
  let product = total;
  for (const [i, symbol] of word.entries()) {
    const map = mapOf(symbol, i);
    product = product && map ? multiplyMatrices(map.matrix, product) : null;
    steps.push({ symbol: alphabet[symbol], state: next(steps.at(-1).state, symbol), applies: map && describeMap(map, geometry),
        total: product && describeMatrix(product, geometry, true) });
  }
  return steps.map((step, i) => {
    const answer = example ? data.walk.answers[i] : step.state;
    return { ...step, name: states[step.state], answer: answer < 0 ? "none" : states[answer], right: answer === step.state,
      accepted: accepting ? accepting[step.state] : null };
  });
}

// "Symbol 3 of 18, (1 2 3): rotation by 120.00°. The product so far is (1 3 2), a rotation by 120.00° about (0.577, 0.577, 0.577)."
export function stepStatus(steps, i, kind, example) {
  const { symbol, applies, total, answer, name, right, accepted } = steps[i];
  const where = i === 0 ? "Before the first symbol" :
    `Symbol ${i} of ${steps.length - 1}, ${symbol}${applies ? ` (${applies})` : ""}`;
  const what = kind === "group" ? "product" : "state";
  const says = !right ? `the model answers ${answer}, but the ${what} is ${name}` : example ?
    `the model answers ${answer}, which is right` : `the ${what} is ${name}`;
  const inAll = !total ? "" : total === "no rotation" ? "; in all, no rotation" : `; in all, a ${total}`;
  return `${where}: ${says}${inAll}${accepted === null ? "" : accepted ? "; accepted" : "; rejected"}.`;
}

const stripItem = (steps, i) => {
  const { symbol, state, answer, right, accepted } = steps[i];
  return h("li", { class: `${accepted ? "accepting" : ""}${right ? "" : " wrong"}`.trim(), "data-state": String(state),
      ...(i > 0 ? { "data-edge": `${steps[i - 1].state}-${state}` } : {}) },
    h("span", { class: "symbol" }, symbol ?? "start"), h("span", { class: "answer" }, answer));
};

const stepTable = (steps, kind) => table([
  { head: "step", cell: ({ i }) => i, number: true },
  { head: "symbol", cell: ({ symbol }) => symbol },
  { head: "what it does to the state", cell: ({ applies }) => applies },
  { head: kind === "group" ? "product so far" : "state", cell: ({ name }) => name },
  { head: "rotation so far", cell: ({ total }) => total },
  { head: "accepted", cell: ({ accepted }) => (accepted === null ? null : accepted ? "yes" : "no") },
], steps.slice(1).map((step, i) => ({ ...step, i: i + 1 })), "steps");

// Connects the controls of a walk to its strip, its graph and its table. The slider's position is how many symbols have been read.
function connectWalk(root, data) {
  const find = (selector) => root.querySelector(selector), slider = find("input[type=range]"), play = find(".play");
  const output = find("output"), strip = find(".strip"), field = find("input[name=word]");
  const { alphabet } = data.automaton;
  let steps = [], example = true, timer = null;
  const mark = (element, visited, now) => { element.classList.toggle("visited", visited); element.classList.toggle("now", now); };
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  const show = (time) => {
    slider.value = time;
    const items = [...strip.children], past = items.slice(0, time + 1), now = items[time].dataset;
    items.forEach((item, i) => mark(item, i <= time, i === time));
    for (const state of root.querySelectorAll("svg [data-state]"))
      mark(state, past.some((item) => item.dataset.state === state.dataset.state), state.dataset.state === now.state);
    for (const edge of root.querySelectorAll("svg [data-edge]"))
      mark(edge, past.some((item) => item.dataset.edge === edge.dataset.edge), edge.dataset.edge === now.edge);
    output.textContent = stepStatus(steps, time, data.kind, example);
  };
  const follow = (word, time) => {
    stop();
    steps = followWord(data, word), example = word.join() === data.walk.word.join();
    slider.max = word.length;
    strip.replaceChildren(...steps.map((_, i) => toDom(stripItem(steps, i))));
    find(".details").replaceChildren(
      ...(word.length && steps.some((step) => step.applies) ? [toDom(stepTable(steps, data.kind))] : []));
    find("details").hidden = find(".details").childElementCount === 0;
    show(time);
  };
  const read = () => {
    const { word, error } = parseWord(field.value, alphabet);
    const problem = error ?? (word.length > LONGEST_WORD ? `This page follows words of up to ${LONGEST_WORD} symbols.` : "");
    find(".error").textContent = problem;
    if (!problem) follow(word, word.length);
  };
  const write = (word, time) => { field.value = wordText(word, alphabet); find(".error").textContent = ""; follow(word, time); };
  field.addEventListener("input", read);
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  strip.addEventListener("click",
    (event) => { const item = event.target.closest("li"); if (item) { stop(); show([...strip.children].indexOf(item)); } });
  play.addEventListener("click", () => {
    const last = steps.length - 1;
    if (timer !== null) return stop();
    if (Number(slider.value) === last) show(0);
    play.textContent = "Pause";
    timer = setInterval(() => { show(Math.min(last, Number(slider.value) + 1)); if (Number(slider.value) === last) stop(); },
      800);
  });
  find(".random").addEventListener("click", () =>
    write(Array.from({ length: RANDOM_WORD }, () => Math.floor(Math.random() * alphabet.length)), RANDOM_WORD));
  find(".example").addEventListener("click", () => write(data.walk.word, 0));
  for (const button of root.querySelectorAll(".symbols button"))
    button.addEventListener("click", () => {
      const word = [...(parseWord(field.value, alphabet).word ?? []), Number(button.value)].slice(-LONGEST_WORD);
      write(word, word.length);
    });
  write(data.walk.word, 0);
}

export function walkSection(data) {
  const { alphabet, states } = data.automaton, group = data.kind === "group";
  const drawn = !group && states.length <= MOST_DRAWN_STATES, narrow = (globalThis.innerWidth ?? 1200) < 700;
  const button = (className, text) => h("button", { type: "button", class: className }, text);
  return h("section", { class: "walk", setup: (root) => connectWalk(root, data) },
    h("h2", null, group ? "Follow a word" : drawn ? "The automaton: follow a word through it" : "Follow a word"),
    drawn ? drawAutomaton(data.automaton, narrow) : group ? null :
      h("p", null, `The automaton has ${states.length} states, too many to draw.`),
    h("p", { class: "word" },
      h("label", null, "Word ",
        h("input", { type: "text", name: "word", spellcheck: "false", autocapitalize: "off", autocomplete: "off" })),
      button("random", "Random word"), button("example", "Example")),
    alphabet.length <= MOST_BUTTONS ?
      h("p", { class: "symbols" },
        alphabet.map((symbol, i) => h("button", { type: "button", value: String(i), title: `append ${symbol}` }, symbol))) : null,
    h("p", { class: "error", role: "alert" }),
    h("p", { class: "controls" }, button("play", "Play"),
      h("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "symbols read" }), h("output", null)),
    h("ol", { class: "strip" }),
    h("details", { hidden: "" }, h("summary", null, "Step by step"), h("div", { class: "details" })),
    note("The upper line is the word; below each symbol is the answer after it:",
      group ? "the product of all elements so far, the latest one on the left." : "the state of the automaton.",
      data.kind === "language" && "Double borders mark accepting states.",
      "For the example, answers are the model’s own, and a wrong one would be red; for other words this page computes them " +
      "from the " + (group ? "group’s multiplication" : "automaton’s table") + ". ./dp predict asks the model itself."));
}
