// The page of dp report about a model that dp compile made: what its weights do, and words followed through it.
import { angleChart, MOST_SHOWN, planeChart, sphereChart, transpositionChart } from "./compiled_charts.js";
import { figure, grid, h, note, paragraphs, section, table } from "./elements.js";
import { stepper, wordText } from "./automaton.js";
import { axisText, describeMap, geometryOf, rotationOf, sizeOfMap } from "./geometry.js";
import { counted, grouped } from "./numbers.js";
import { walkSection } from "./walk.js";

const subjectOf = ({ kind, name }) =>
  (kind === "group" ? `the group ${name}` : kind === "language" ? `the language of ${name}` : name);

function compiledSummary(data) {
  const { model, check, walk, kind } = data, rightWalk = walk.answers.join() === answersExpected(data).join();
  const wrong = check.wrong_at === null ? "its answers to the example below are not those"
    : `its answer after symbol ${check.wrong_at} of a random word is not that`;
  const checked = `${check.words} random words of ${check.length} symbols`;
  return [
    `These weights were constructed, not trained${data.theorem ? `: ${data.theorem}` : ""}.`,
    `The model has ${counted(model.layers, "layer")}, n_h = ${model.num_householder}${model.forget_gate ? ", forget gates" : ""}, ` +
      `${counted(model.heads, "head")} of ${model.key_width} × ${model.value_width}, width ${model.width} and an MLP of ` +
      `${model.mlp_width}: ${grouped(model.parameters)} parameters in ${model.dtype}.`,
    check.wrong_at === null && rightWalk
      ? `Checked for this page: it is right after every symbol of ${checked} and of the example below. ` +
        "./dp verify checks many more."
      : `This model is wrong: ${wrong} of the ${kind === "group" ? "group" : "automaton"}.`,
  ];
}

function answersExpected({ automaton, walk }) {
  const next = stepper(automaton), states = [automaton.start];
  for (const symbol of walk.word) states.push(next(states.at(-1), symbol));
  return states;
}

function mapsNotes(maps, geometry) {
  const copies = maps.copies > 1 ? `; the model holds ${maps.copies} copies of each, which are averaged here` : "";
  const upTo = maps.heads_differ > 0 ? `, up to differences of ${maps.heads_differ.toExponential(0)}` : "";
  return [
    maps.along_word ? "Read from the weights: the factors I − beta k kᵀ that the last layer applies along the example above. " +
      "They depend on earlier tokens too: a layer may apply a factor later than the token that calls for it."
      : "Read from the weights: the factors I − beta k kᵀ of each token, and their product.",
    `The state has ${counted(maps.dimension, "row")}${copies}.`,
    maps.heads > 1 && `${maps.heads === 2 ? "Both" : `All ${maps.heads}`} heads apply the same product${upTo}; ` +
      "they differ in what they read.",
    geometry === "rotations" && "A ring is drawn where the axis of a rotation meets the sphere, on the side from which the " +
      "rotation is counterclockwise; a rotation by 180° has a ring on both sides. Grey lines join neighbouring axes of the " +
      "highest order.",
    maps.products?.count > 0 &&
      `These matrices multiply like the elements: ${grouped(maps.products.count)} products agree with the group’s ` +
      `multiplication table up to ${maps.products.largest_difference.toExponential(0)}.`,
    maps.count > MOST_SHOWN && `The first ${MOST_SHOWN} of ${grouped(maps.count)} elements are shown.`];
}

function mapsSection(maps, geometry) {
  const charts = { rotations: () => [sphereChart(maps, true), sphereChart(maps, false), angleChart(maps)],
    plane: () => [planeChart(maps)], transpositions: () => [transpositionChart(maps)], other: () => [] }[geometry]();
  return section("What each token does to the state",
    charts.length ? grid(charts.map((chart) => figure(chart)), geometry === "transpositions" ? "single" : "") : null,
    note(...mapsNotes(maps, geometry)));
}

const isRwkv7 = (data) => data.model.architecture === "rwkv7_product";

const rwkv7Section = () => section("What each token does to the state", note(
  "Products of RWKV-7’s transitions, diag(w) − c k (k ⊙ a)ᵀ with w = 1 and c = 2: a = 1 is a reflection, a = ½ a write, and a that is 1 " +
  "in a single coordinate a copy. They are not drawn here, because the charts of this page are of products of Householder matrices."));

function mapsTable(maps, geometry) {
  const axis = (map) => { const { axis: it } = rotationOf(map.matrix); return it && axisText(it); };
  return section(maps.along_word ? "Every token of the example" : "Every token", table([
    ...(maps.along_word ? [{ head: "position", cell: ({ i }) => i + 1, number: true }] : []),
    { head: "element", cell: ({ map }) => ({ text: map.name, value: map.element }) },
    { head: "applies", cell: ({ map }) => ({ text: describeMap(map, geometry), value: sizeOfMap(map, geometry) }) },
    ...(geometry === "rotations" ? [{ head: "axis", cell: ({ map }) => axis(map) }] : []),
    { head: "order", cell: ({ map }) => map.order, number: true },
    { head: "betas", cell: ({ map }) => map.betas.map((beta) => Number(beta.toPrecision(4))).join(", ") },
  ], maps.maps.slice(0, MOST_SHOWN).map((map, i) => ({ map, i }))));
}

const shellQuoted = (word) => (/^[\w\-+=./,:@%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

export function compiledPage(data) {
  const geometry = data.maps ? geometryOf(data.maps) : null, directory = shellQuoted(data.directory);
  const commands = [data.command, `./dp verify ${directory}`,
    `echo ${shellQuoted(wordText(data.walk.word, data.automaton.alphabet))} | ./dp predict ${directory}`].filter(Boolean);
  return {
    title: `${subjectOf(data)}, compiled`,
    body: [
      h("h1", null, `${isRwkv7(data) ? "An RWKV-7" : "A DeltaProduct"} model for ${subjectOf(data)}`),
      paragraphs(compiledSummary(data)),
      walkSection(data),
      data.maps ? mapsSection(data.maps, geometry) : isRwkv7(data) ? rwkv7Section() : null,
      section(data.command ? "Compile it again, verify it, query it" : "Verify it, query it",
        h("pre", { class: "command" }, commands.join("\n"))),
      data.maps ? mapsTable(data.maps, geometry) : null,
    ],
  };
}
