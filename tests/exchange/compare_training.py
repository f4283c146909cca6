"""Compares training on with a published model's sizes: ``python tests/exchange/compare_training.py`` prints a table.

A model of random weights with the sizes of an OPUS-MT model (6 + 6 layers, D 512, F 2048, 8 heads, 58,101 tokens) takes
training steps on the same random batch, all weights or the factors of LoRA: here with ``Workers`` and Adam, and with
transformers, PEFT and PyTorch's fused Adam. Dropout is 0.1 and label smoothing 0.1 on both sides. Each program runs in
a process of its own, the programs in turns. Needs ``torch``, ``transformers`` and ``peft``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from compare_decoding import END, PAD, VOCABULARY, peak_memory

PROGRAMS = ("minitransformer", "minitransformer LoRA", "transformers", "transformers LoRA")
RANK = 8
Step = Callable[[], float]


def batch(sentences: int, length: int) -> list[np.ndarray]:
    """Return source, decoder input and targets without padding, each (B, T)."""
    rng = np.random.default_rng(0)
    return [rng.integers(4, VOCABULARY - 1, (sentences, length)) for _ in range(3)]


def ours(lora: bool, ids: list[np.ndarray], block: int, threads: int) -> Step:
    """Return our step."""
    import minitransformer as mt
    from minitransformer.sharding import Workers, shared_step
    from minitransformer.tasks import build
    from minitransformer.training import Configuration
    from minitransformer.training.low_rank import adapt

    model = mt.nn.Transformer(VOCABULARY, VOCABULARY, attention_bias=True, output_bias=True, activation="silu")
    if lora:
        adapt(model, Configuration.of_task(build("numbers"), lora=RANK, start="an opened model", average_last=1))
    optimiser = mt.optim.Adam(model.trained_parameters())
    workers = Workers(model, threads, threads, loss_block=block or None)
    return lambda: float(shared_step(model, optimiser, mt.data.Batch(*ids), 1e-6, 0.1, workers))


def transformers(lora: bool, ids: list[np.ndarray], block: int, threads: int) -> Step:
    """Return the step of transformers, with PEFT's LoRA on the projections of queries, keys, values and outputs."""
    import torch
    from transformers import MarianConfig, MarianMTModel, logging

    logging.set_verbosity_error()
    stacks = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=512, activation_function="swish", scale_embedding=True, dropout=0.1,
        pad_token_id=PAD, decoder_start_token_id=PAD, eos_token_id=END,
        **{f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in stacks.items()},
    )  # fmt: skip
    model = MarianMTModel(config)
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


def serve(options: argparse.Namespace) -> None:
    """Do a step for each line of the standard input; write what was measured."""
    name, _, lora = options.serve.partition(" ")
    build = {"minitransformer": ours, "transformers": transformers}[name]
    step = build(bool(lora), batch(options.batch, options.length), options.block, options.threads)
    for _ in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        step()
        seconds, work = time.perf_counter() - start, time.process_time() - cpu
        print(json.dumps({"seconds": seconds, "cpu": work, "peak": peak_memory()}), flush=True)


def main() -> None:
    """Compare, or be one of the programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--batch", type=int, default=16, help="sentences")
    parser.add_argument("--length", type=int, default=24, help="tokens of each")
    parser.add_argument("--block", type=int, default=0, help="target positions of a block of our loss; 0 for the whole")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    print(
        *(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "torch", "transformers", "peft")), sep=", "
    )
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, str(options.threads)) | {"HF_HUB_OFFLINE": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:], "--serve", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        for program in options.programs
    ]  # fmt: skip

    def turn() -> list[dict[str, float]]:
        answers = []
        for process in processes:
            assert process.stdin
            assert process.stdout
            print(file=process.stdin, flush=True)
            answers.append(json.loads(process.stdout.readline()))
        return answers

    turn()  # the first is not measured
    turns = [turn() for _ in range(options.rounds)]
    for i, program in enumerate(options.programs):
        ratios = [one[i]["seconds"] / one[0]["seconds"] for one in turns]
        print(
            f"{program:22}{median(one[i]['seconds'] for one in turns):6.2f} s, time / first {median(ratios):.2f} "
            f"({min(ratios):.2f}-{max(ratios):.2f}), CPU {median(one[i]['cpu'] for one in turns):.2f} s, "
            f"peak {turns[-1][i]['peak'] / 1e6:.0f} MB"
        )
    for process in processes:
        process.communicate()


if __name__ == "__main__":
    main()
