// The words of the tour. A translation stands beside them, under the same names.

export const TOUR = {
  count: (n, all) => `Tour, step ${n} of ${all}`,
  back: "Back", next: "Next", leave: "Leave the tour", done: "End the tour", start: "Tour",
  look: {
    title: (word) => `What did “${word}” look at?`,
    text: (n) => `This is a Transformer with ${n} parameters, taken apart: every number, its gradient, and the line that computes it. `
      + "Point at a word below: what the model reads while it writes that word lights up.",
  },
  number: {
    title: () => "Where does the number come from?",
    text: (weight, head, word) => `Head ${head} gives “${word}” the weight ${weight}. Follow it back: click weights, scores, Q or K. `
      + "You see the numbers, the formula and the line of source.",
  },
  gradient: {
    title: () => "Its gradient, and the check beside it",
    text: () => "How does the loss change if this number changes? The gradient was derived by hand. "
      + "Below it stands a central difference: the model run with the number a little larger, and a little smaller.",
  },
  off: {
    title: () => "Switch a head off",
    text: () => "Click a picture to switch its head off. One head is seldom missed. Switch off all of them, and the translation breaks.",
    all: "Switch off all heads", reset: "Switch them on",
    saved: "This file cannot compute anything new. Run `minitransformer explore RUN` to switch heads off.",
  },
  learn: {
    title: () => "Watch it being learnt",
    text: () => "Move the slider, or press Play: the translation and the attention of the same text at each checkpoint of the training.",
  },
};
