// run.mjs BIN: starts BIN (a Changeover server with one open session), puts a forwarder before it that brings the session's
// token (the runner sends none), and runs the public runner's scenarios against the forwarder. A scenario passes when the
// runner says so and at least one of its checks succeeded.
import { spawn } from "node:child_process";
import http from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SCENARIOS = ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"];
const PATIENCE = 120_000;
const runner = fileURLToPath(new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url));

/** The server with a session in it: its address and the session's token. */
async function start(bin) {
  const child = spawn(bin, [], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((_, fail) => {
    child.once("error", fail);
    child.once("exit", (code) => fail(new Error(`${bin} ended with ${code}`)));
  });
  ended.catch(() => {});
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([lines[Symbol.asyncIterator]().next(), ended]);
  return { child, ...JSON.parse(first.value) };
}

/** Forwards all as it is, with the token; where the runner names the forwarder's own port, the server's stands instead. */
async function forward(target, token) {
  const { port } = new URL(target);
  const server = http.createServer((request, response) => {
    const own = String(server.address().port);
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    for (const name of ["host", "origin"]) {
      if (headers[name]) headers[name] = headers[name].replace(new RegExp(`:${own}$`), `:${port}`);
    }
    const onward = http.request(target, { method: request.method, headers, path: request.url }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.once("error", (error) => response.destroy(error));
    request.pipe(onward);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return server;
}

/** Runs one scenario; what it said, and whether it passed. */
async function check(scenario, url) {
  const child = spawn(process.execPath, [runner, "server", "--url", url, "--scenario", scenario], { stdio: ["ignore", "pipe", "pipe"] });
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
  const code = await new Promise((done, fail) => {
    child.once("error", fail);
    child.once("close", done);
  });
  clearTimeout(timer);
  const counts = said.match(/Passed:\s*(\d+)\/(\d+),\s*(\d+) failed/);
  const passed = code === 0 && counts !== null && Number(counts[1]) > 0 && counts[1] === counts[2] && counts[3] === "0";
  return { said, passed };
}

const stand = await start(process.argv[2]);
const forwarder = await forward(stand.url, stand.token);
const url = `http://localhost:${forwarder.address().port}/mcp`;
let failed = 0;
for (const scenario of SCENARIOS) {
  const { said, passed } = await check(scenario, url);
  console.log(`${passed ? "passed" : "FAILED"}: ${scenario}`);
  if (!passed) console.log(said.replaceAll(stand.token, "…"));
  failed += passed ? 0 : 1;
}
forwarder.close();
forwarder.closeAllConnections();
stand.child.removeAllListeners("exit");
stand.child.stdin.end();
await new Promise((done) => stand.child.once("exit", done));
process.exit(failed === 0 ? 0 : 1);
