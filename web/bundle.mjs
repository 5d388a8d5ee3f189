// node bundle.mjs MODULES OUTPUT: the chart libraries that npm installed into MODULES as one script, with
// their licences, as it goes into the page. It knows no network: nothing in it is loaded later.
import fs from "node:fs";
import path from "node:path";

const [modules, output] = process.argv.slice(2);
const scripts = ["vega/build/vega.min.js", "vega-lite/build/vega-lite.min.js", "vega-embed/build/vega-embed.min.js"];
const licences = ["vega", "vega-lite", "vega-embed", "d3-array", "topojson-client"];
const read = (name) => fs.readFileSync(path.join(modules, name), "utf8");

let bundle = "";
for (const name of licences) {
  const { version, license } = JSON.parse(read(`${name}/package.json`));
  bundle += `/*! ${name} ${version} (${license})\n\n${read(`${name}/LICENSE`).replaceAll("*/", "* /").trim()}\n*/\n`;
}
for (const name of scripts) bundle += read(name).replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "") + "\n";
// Either would end the page's script element, or confuse where it ends.
if (/<\/script|<!--/i.test(bundle)) throw new Error("a chart library contains </script or <!--");
fs.writeFileSync(output, bundle);
