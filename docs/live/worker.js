// Python in a thread of its own, so that the page never waits for it. Ending the worker ends an endless loop.
let engine;

async function boot({ runtime, wheel }) {
  importScripts(`${runtime}pyodide.js`);
  const python = await loadPyodide({ indexURL: runtime, stdin: () => null });
  await python.loadPackage("numpy", { messageCallback: () => {} });
  python.unpackArchive(await (await load(wheel)).arrayBuffer(), "wheel");
  const names = python.toPy({ __name__: "engine" });
  python.runPython(await (await load("engine.py")).text(), { globals: names, filename: "engine.py" });
  engine = { check: names.get("check"), run: names.get("run") };
}

async function load(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer;
}

onmessage = async ({ data: { boot: settings, ask, given } }) => {
  try {
    if (settings) await boot(settings);
    postMessage({ done: ask ? JSON.parse(engine[ask](...given)) : true });
  } catch (error) {
    // other errors, such as a stack that overflows, leave an interpreter that cannot be used
    postMessage({ failed: String(error.message ?? error), crashed: error.name !== "PythonError" });
  }
};
