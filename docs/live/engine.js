// The worker that computes, and a second one, loaded in advance, that takes its place when it is ended.
class Python {
  constructor(settings, folder) {
    this.worker = new Worker(new URL("worker.js", folder));
    const runtime = new URL(settings.runtime, folder).href;
    this.ready = this.post({ boot: { runtime, wheel: settings.wheel } });
    this.ready.catch(() => (this.failed = true));
  }

  post(message) {
    return new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) =>
        "failed" in data ? reject(Object.assign(new Error(data.failed), data)) : resolve(data.done);
      this.worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message || "the worker could not be loaded"));
      };
      this.worker.postMessage(message);
    });
  }
}

class Engine {
  #load;
  #seconds;
  #spares;
  #current;
  #spare;
  #queue = Promise.resolve();
  #stop = () => {};

  constructor(settings, folder) {
    this.#load = () => new Python(settings, folder);
    this.#seconds = settings.seconds;
    this.#spares = Boolean(settings.name); // an index has no code of a learner
    this.#use(this.#load());
    this.ready = this.#current.ready;
  }

  #use(one) {
    this.#current = one;
    this.#spare = undefined;
    // not both at once: that would double the wait for the first
    if (this.#spares) one.ready.then(() => (this.#spare = this.#load()), () => {});
  }

  #replace() {
    this.#current.worker.terminate();
    this.#use(this.#spare && !this.#spare.failed ? this.#spare : this.#load());
  }

  /** Ask for an answer: `{text, ...}`, or `{ended}`, with "late", "stopped" or "crashed". Errors of Python reject. */
  ask(name, ...given) {
    const answer = this.#queue.then(() => this.#answer(name, given));
    this.#queue = answer.catch(() => {});
    return answer;
  }

  /** Stop what is running now. */
  stop() {
    this.#stop("stopped");
  }

  async #answer(name, given) {
    if (this.#current.failed) this.#replace(); // the network may be back
    const python = this.#current;
    const ended = new Promise((resolve) => (this.#stop = (how) => resolve({ ended: how })));
    let clock;
    try {
      const early = await Promise.race([python.ready, ended]); // it may be stopped before it runs
      if (early.ended) return early;
      clock = setTimeout(() => this.#stop("late"), 1000 * this.#seconds);
      const answered = python.post({ ask: name, given }).catch((error) => {
        if (!error.crashed) throw error;
        return { ended: "crashed" };
      });
      const answer = await Promise.race([answered, ended]);
      if (answer.ended) this.#replace();
      return answer;
    } finally {
      clearTimeout(clock);
      this.#stop = () => {};
    }
  }
}
