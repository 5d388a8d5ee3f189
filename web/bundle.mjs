// node bundle.mjs libraries MODULES OUTPUT: the libraries that npm installed into MODULES as one script, with their licences.
// node bundle.mjs pages FOLDER OUTPUT: main.js of FOLDER and what it imports as one script.
// Both go into every page, which loads nothing later.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [what, folder, output] = process.argv.slice(2);
const read = (name) => fs.readFileSync(path.join(folder, name), "utf8");

function libraries() {
  const scripts = ["vega/build/vega.min.js", "vega-lite/build/vega-lite.min.js", "vega-embed/build/vega-embed.min.js",
                   "@dagrejs/dagre/dist/dagre.min.js"];
  const licences = ["vega", "vega-lite", "vega-embed", "d3-array", "topojson-client", "@dagrejs/dagre", "@dagrejs/graphlib"];
  let bundle = "";
  for (const name of licences) {
    const { version, license } = JSON.parse(read(`${name}/package.json`));
    bundle += `/*! ${name} ${version} (${license})\n\n${read(`${name}/LICENSE`).replaceAll("*/", "* /").trim()}\n*/\n`;
  }
  for (const name of scripts) bundle += read(name).replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "") + "\n";
  return bundle;
}

// Modules share one block: their names must differ, which the parser checks.
function pages() {
  const added = new Set();
  let bundle = "";
  const add = (name) => {
    if (added.has(name)) return;
    added.add(name);
    const text = read(name);
    for (const [, other] of text.matchAll(/^import \{[^}]*\} from "\.\/(.+)";$/gm)) add(other);
    bundle += text.replace(/^import [^;]*;\n/gm, "").replace(/^export /gm, "");
  };
  add("main.js");
  return `"use strict";\n{\n${bundle}}\n`;
}

const bundle = what === "libraries" ? libraries() : pages();
new vm.Script(bundle, { filename: output });  // throws if it is not a script
// Either would end the page's script element, or confuse where it ends.
if (/<\/script|<!--/i.test(bundle)) throw new Error(`${what}: a script contains </script or <!--`);
fs.writeFileSync(output, bundle);
