// An automaton: its graph as SVG, laid out by dagre, and words that go through it.
import { h } from "./elements.js";

export const MOST_DRAWN_STATES = 30;
const HEIGHT = 38, LOOP = 46, LETTER = 8, MOST_SYMBOLS = 4, LONGEST_NAME = 14;

// The state after a symbol. Of a group, elements are permutations and the last symbol multiplies from the left.
export function stepper({ moves, permutations, elements }) {
  if (moves) return (state, symbol) => moves[symbol][state];
  const number = new Map(permutations.map((images, i) => [images.join(), i]));
  return (state, symbol) => number.get(permutations[state].map((point) => permutations[elements[symbol]][point]).join());
}

// Words as dp predict reads them: characters, or symbols with spaces or commas between them, parentheses taken together. Returns
// {word: [symbols]} or {error}.
export function parseWord(text, alphabet) {
  const characters = alphabet.every((symbol) => [...symbol].length === 1);
  const parts = characters ? [...text].filter((character) => !/\s/.test(character) || alphabet.includes(character)) :
    text.match(/(\([^)]*\)?|[^\s,(])+/g) ?? [];
  const plain = (symbol) => symbol.replace(/[\s,]+/g, " ").replace(/\( /g, "(").replace(/ \)/g, ")");
  const word = [];
  for (const part of parts) {
    const symbol = alphabet.findIndex((it) => it === part || plain(it) === plain(part));
    const known = `${alphabet.slice(0, 12).join(", ")}${alphabet.length > 12 ? ", …" : ""}`;
    if (symbol < 0) return { error: `“${part}” is not a symbol of this model. Its symbols are ${known}.` };
    word.push(symbol);
  }
  return { word };
}
export const wordText = (word, alphabet) =>
  word.map((symbol) => alphabet[symbol]).join(alphabet.every((symbol) => [...symbol].length === 1) ? "" : " ");

// All symbols that lead from one state to another, of states that the start leads to: [{from, to, symbols}].
export function mergedEdges({ alphabet, start, moves }) {
  const states = [start], edges = new Map();
  for (const from of states)
    alphabet.forEach((_, symbol) => {
      const to = moves[symbol][from], key = `${from}-${to}`;
      if (!states.includes(to)) states.push(to);
      if (!edges.has(key)) edges.set(key, { from, to, symbols: [] });
      edges.get(key).symbols.push(symbol);
    });
  return { states, edges: [...edges.values()] };
}

// "a, b"; for many symbols "all but c" or the first few.
export function edgeLabel(alphabet, { symbols }) {
  const others = alphabet.filter((_, symbol) => !symbols.includes(symbol)), names = symbols.map((symbol) => alphabet[symbol]);
  if (names.length <= MOST_SYMBOLS) return names.join(", ");
  if (others.length === 0) return "any";
  return others.length <= 2 ? `all but ${others.join(", ")}` :
    `${names.slice(0, MOST_SYMBOLS - 1).join(", ")}, … (${names.length})`;
}

const shortened = (text, most) => ([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);
const at = (number) => number.toFixed(1);

function arrow(points, attributes, ...label) {
  const middle = (a, b) => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }), end = points.at(-1), before = points.at(-2);
  const size = Math.hypot(end.x - before.x, end.y - before.y) || 1;
  const [dx, dy] = [9 * (end.x - before.x) / size, 9 * (end.y - before.y) / size];
  let path = `M${at(points[0].x)} ${at(points[0].y)}`;
  for (let i = 1; i + 1 < points.length; ++i) {
    const to = i + 2 < points.length ? middle(points[i], points[i + 1]) : end;
    path += `Q${at(points[i].x)} ${at(points[i].y)} ${at(to.x)} ${at(to.y)}`;
  }
  if (points.length === 2) path += `L${at(end.x)} ${at(end.y)}`;
  return h("g", attributes, h("path", { d: path }),
    h("path", { class: "head",
        d: `M${at(end.x)} ${at(end.y)}L${at(end.x - dx - dy / 2)} ${at(end.y - dy + dx / 2)}L${at(end.x - dx + dy / 2)} ${at(end.y - dy - dx / 2)}Z` }), ...label);
}

// A loop above its state, or beside it; dagre leaves the room for it but does not draw it well.
function loopPoints({ x, y, width }, vertical) {
  const [dx, dy] = vertical ? [width / 2, 0] : [0, -HEIGHT / 2], far = (a, b) => ({ x: x + a, y: y + b });
  return vertical ? [far(dx - 3, -11), far(dx + LOOP, -24), far(dx + LOOP, 24), far(dx - 3, 11)] :
    [far(-11, dy + 3), far(-24, dy - LOOP), far(24, dy - LOOP), far(11, dy + 3)];
}

// dagre ends edges at its boxes, which are larger than states with loops: the ends are moved to the states' own outlines.
function clipped(points, from, to) {
  const border = ({ x, y, width }, towards) => {
    const [dx, dy] = [towards.x - x, towards.y - y], flat = width / 2 - HEIGHT / 2;  // a stadium: a box with round ends
    let near = 0, beyond = 1;
    const inside = (t) => Math.hypot(Math.max(0, Math.abs(t * dx) - flat), t * dy) < HEIGHT / 2;
    for (let i = 0; i < 20; ++i) { const t = (near + beyond) / 2; if (inside(t)) near = t; else beyond = t; }
    return { x: x + beyond * dx, y: y + beyond * dy };
  };
  const inner = points.slice(1, -1);
  const via = inner.length ? inner : [{ x: (points[0].x + points.at(-1).x) / 2, y: (points[0].y + points.at(-1).y) / 2 }];
  return [from ? border(from, via[0]) : points[0], ...via, border(to, via.at(-1))];
}

// Elements have classes, and data-state="q" or data-edge="p-q" to find them by. `vertical` suits narrow screens.
export function drawAutomaton(automaton, vertical = false) {
  const { alphabet, states: names, start, accepting } = automaton, { states, edges } = mergedEdges(automaton);
  const graph = new globalThis.dagre.graphlib.Graph(
    ).setGraph({ rankdir: vertical ? "TB" : "LR", nodesep: 34, ranksep: 46, edgesep: 16, marginx: 8, marginy: 8 });
  const loops = new Map(edges.filter(({ from, to }) => from === to).map((edge) => [edge.from, edgeLabel(alphabet, edge)]));
  const nameWidth = (state) => Math.max(HEIGHT, LETTER * Math.min(LONGEST_NAME, [...names[state]].length) + 18);
  for (const state of states) {  // room for a loop on one side is left on both
    const label = loops.get(state), beside = label === undefined ? 0 : LOOP + (vertical ? LETTER * label.length : 0);
    graph.setNode(String(state),
      { width: nameWidth(state) + (vertical ? 2 * beside : 0), height: HEIGHT + (vertical ? 0 : 2 * beside) });
  }
  graph.setNode("start", { width: 2, height: 2 });
  graph.setEdge("start", String(start), { minlen: 1, weight: 4 });
  for (const edge of edges.filter(({ from, to }) => from !== to))
    graph.setEdge(String(edge.from), String(edge.to),
      { label: edgeLabel(alphabet, edge), width: LETTER * edgeLabel(alphabet, edge).length + 8, height: 18, labelpos: "c" });
  globalThis.dagre.layout(graph);
  const { width, height } = graph.graph(), node = (state) => ({ ...graph.node(String(state)), width: nameWidth(state) });
  const placed = edges.map((edge) => {
    if (edge.from !== edge.to)
      return { ...edge, ...graph.edge(String(edge.from), String(edge.to)),
        points: clipped(graph.edge(String(edge.from), String(edge.to)).points, node(edge.from), node(edge.to)) };
    const { x, y, width: wide } = node(edge.from), label = loops.get(edge.from);
    return { ...edge, label, points: loopPoints(node(edge.from), vertical),
      x: vertical ? x + wide / 2 + 0.8 * LOOP + LETTER / 2 * label.length : x, y: vertical ? y : y - HEIGHT / 2 - 0.8 * LOOP };
  });
  return h("svg", { class: "automaton", viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, width: Math.ceil(width),
      height: Math.ceil(height), role: "img", "aria-label": "The automaton’s graph" },
    arrow(clipped(graph.edge("start", String(start)).points, null, node(start)), { class: "start" }),
    placed.map(({ from, to, points }) => arrow(points, { class: "edge", "data-edge": `${from}-${to}` })),
    placed.map(({ x, y, label, symbols }) =>
      h("text", { class: "label", x: at(x), y: at(y) }, label,
        h("title", null, symbols.map((symbol) => alphabet[symbol]).join(", ")))),
    states.map((state) => {
      const { x, y, width: wide } = node(state);
      const box = (className, inset) =>
        h("rect", { class: className, x: at(x - wide / 2 + inset), y: at(y - HEIGHT / 2 + inset), width: at(wide - 2 * inset),
            height: HEIGHT - 2 * inset, rx: HEIGHT / 2 - inset });
      return h("g", { class: "state", "data-state": String(state) }, box("rim", 0), accepting?.[state] ? box("ring", 4) : null,
        h("text", { x: at(x), y: at(y) }, shortened(names[state], LONGEST_NAME), h("title", null, names[state])));
    }));
}
