"""Compares training on with a published model's sizes: ``python tests/interop/compare_training.py`` prints a table.

A model of random weights with the sizes of an OPUS-MT model (6 + 6 layers, D 512, F 2048, 8 heads, 58,101 tokens) takes
training steps on the same random batch, all weights or the factors of LoRA: here with ``training_step`` and Adam, and
with transformers, PEFT and PyTorch's fused Adam. Dropout is 0.1 and label smoothing 0.1 on both sides. Each program
runs in a process of its own, the programs in turns. Needs ``torch``, ``transformers`` and ``peft``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Callable

import numpy as np
from compare_decoding import VOCABULARY, WRITTEN, marian_model, serve, take_turns

PROGRAMS = ("minitransformer", "minitransformer LoRA", "transformers", "transformers LoRA")
RANK = 8
Step = Callable[[], float]


def ours(lora: bool, ids: list[np.ndarray], block: int, threads: int) -> Step:
    """Return our step."""
    import minitransformer as mt
    from minitransformer.runs import Configuration
    from minitransformer.runs.low_rank import adapt
    from minitransformer.tasks import build
    from minitransformer.training import training_step

    model = mt.nn.Transformer(VOCABULARY, VOCABULARY, attention_bias=True, output_bias=True, activation="silu")
    if lora:
        adapt(model, Configuration.of_task(build("numbers"), lora=RANK, start="an opened model", average_last=1))
    optimiser = mt.optim.Adam(model.trained_parameters())
    batch = mt.data.Batch(*ids)

    def step() -> float:
        with mt.arrays.blas.threads(threads):
            return float(training_step(model, optimiser, batch, 1e-6, 0.1, loss_block=block or None))

    return step


def transformers(lora: bool, ids: list[np.ndarray], block: int, threads: int) -> Step:
    """Return the step of transformers, with PEFT's LoRA on the projections of queries, keys, values and outputs."""
    import torch
    from transformers import logging

    logging.set_verbosity_error()
    model = marian_model(dropout=0.1)
    if lora:
        from peft import LoraConfig, get_peft_model

        projections = ["q_proj", "k_proj", "v_proj", "out_proj"]
        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=RANK, target_modules=projections))
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=1e-6, betas=(0.9, 0.98), eps=1e-9, fused=True)
    source, inputs, targets = (torch.from_numpy(one) for one in ids)

    def step() -> float:
        optimiser.zero_grad()
        logits = model(input_ids=source, decoder_input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return step


def main() -> None:
    """Compare, or be one of the programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--batch", type=int, default=16, help=f"sentences, each of {WRITTEN} tokens")
    parser.add_argument("--block", type=int, default=0, help="target positions of a block of our loss; 0 for the whole")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        name, _, lora = options.serve.partition(" ")
        rng = np.random.default_rng(0)
        ids = [rng.integers(4, VOCABULARY - 1, (options.batch, WRITTEN)) for _ in range(3)]
        build = {"minitransformer": ours, "transformers": transformers}[name]
        step = build(bool(lora), ids, options.block, options.threads)
        serve(lambda n: [step()] * n)
        return
    packages = ("numpy", "torch", "transformers", "peft")
    print(*(f"{name} {importlib.metadata.version(name)}" for name in packages), sep=", ")
    arguments = [f"--{name}={getattr(options, name)}" for name in ("batch", "block", "threads")]
    for line in take_turns(options.programs, options.batch, options.rounds, options.threads, arguments):
        print(line.partition(", same")[0])


if __name__ == "__main__":
    main()
