// The one table of `./dev bench`, for what is measured in Node: see rows.rs. Run by itself it prints the table that
// `CHANGEOVER_BENCH_ROWS` holds, and fails where a figure is missed.
import { appendFileSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const widths = [72, 40, 26];

function print([what, number, target, verdict]) {
  console.log(`${what.padEnd(widths[0])}${number.padStart(widths[1])}   ${target.padEnd(widths[2])}${verdict}`.trimEnd());
}

/** One figure beside what it is held against; `met` is absent where nothing is asked of it. */
export function row(what, number, target = "", met = undefined) {
  const fields = [what, number, target, met === undefined ? "" : met ? "ok" : "MISSED"];
  print(fields);
  const kept = process.env.CHANGEOVER_BENCH_ROWS;
  if (kept) appendFileSync(kept, `${fields.join("\t")}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const rows = readFileSync(process.env.CHANGEOVER_BENCH_ROWS, "utf8").trimEnd().split("\n").map((line) => line.split("\t"));
  print(["what", "number", "held to", ""]);
  rows.forEach(print);
  const missed = rows.filter((fields) => fields[3] === "MISSED");
  console.log(missed.length === 0 ? "every figure is met" : `${missed.length} of ${rows.length} figures are missed`);
  process.exit(missed.length === 0 ? 0 : 1);
}
