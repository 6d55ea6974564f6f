// Bundles charts.js, with the licences of what is in it and the hash that tests/unit/test_vendor.py holds it to.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../client/cleave/report/vendor";

const { outputFiles, metafile } = await build({
  entryPoints: ["charts.js"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Plot",
  target: "es2020",
  charset: "ascii",
  legalComments: "none", // in licences.txt, whole
  metafile: true,
  write: false,
});
const [bundle] = outputFiles;
const text = bundle.text;
if (/<\/script|<!--/i.test(text)) throw new Error("the bundle cannot stand in a script element as it is");

const kept = Object.entries(Object.values(metafile.outputs)[0].inputs).filter(([, input]) => input.bytesInOutput > 0);
const names = new Set(kept.flatMap(([path]) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []));
const packages = [...names].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} has no licence file`);
  return { name, version, license, text: readFileSync(`${folder}/${file}`, "utf8").trim() };
});

writeFileSync(`${OUT}/plot.js`, text);
writeFileSync(
  `${OUT}/licences.txt`,
  packages.map((each) => `${each.name} ${each.version} (${each.license})\n\n${each.text}\n`).join(`\n${"-".repeat(80)}\n\n`),
);
const sha256 = createHash("sha256").update(text).digest("hex");
const versions = packages.map((each) => `"${each.name}" = "${each.version}"\n`).join("");
writeFileSync(
  `${OUT}/vendor.toml`,
  `# Written by \`make charts\`: what plot.js is made of.\nsha256 = "${sha256}"\nbytes = ${Buffer.byteLength(text)}\n\n[packages]\n${versions}`,
);
console.log(`plot.js: ${Buffer.byteLength(text)} bytes, ${packages.length} packages`);
