"""Compares decoding with a published model's sizes: ``python tests/interop/compare_decoding.py`` prints a table.

A model of random weights with the sizes of an OPUS-MT model (6 + 6 layers, D 512, F 2048, 8 heads, 58,101 tokens) is
written by transformers, imported here and converted by CTranslate2. Each program translates the same random sentences
by beam search in a process of its own, the programs in turns. All write the same number of tokens, so the work is the
same. Needs ``torch``, ``transformers``, ``sentencepiece`` and ``ctranslate2``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

VOCABULARY = 58_101
PAD, END, UNKNOWN = VOCABULARY - 1, 0, 1  # there; here they are 0, 2 and 3, and the others are moved by 2
READ, WRITTEN = 20, 24
PROGRAMS = ("minitransformer", "transformers", "CTranslate2 float32", "CTranslate2 int8")

Sentences = list[list[int]]


def marian_model(**options: Any) -> Any:
    """Return a model of transformers with random weights and the sizes of OPUS-MT."""
    from transformers import MarianConfig, MarianMTModel

    stacks = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=512, activation_function="swish", scale_embedding=True, pad_token_id=PAD,
        decoder_start_token_id=PAD, eos_token_id=END, **options,
        **{f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in stacks.items()},
    )  # fmt: skip
    return MarianMTModel(config)


def write_models(folder: Path) -> None:
    """Write the model in each program's format."""
    import torch
    import transformers
    from ctranslate2.converters import TransformersConverter
    from marian_folders import tokens, write_tokenisers

    from minitransformer.apps.interop import read_huggingface, write_run

    known = tokens()
    words = [*known[:-1], *(f"w{i}" for i in range(VOCABULARY - len(known))), known[-1]]
    write_tokenisers(folder / "original")
    (folder / "original" / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    torch.manual_seed(0)
    model = marian_model(init_std=512**-0.5, forced_eos_token_id=None)
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[PAD]], decoder_start_token_id=PAD, eos_token_id=END, pad_token_id=PAD, max_length=512
    )
    model.save_pretrained(folder / "original")
    write_run(read_huggingface(folder / "original"), folder / "run")
    TransformersConverter(str(folder / "original")).convert(str(folder / "converted"))


def sources(n: int) -> Sentences:
    """Return n random sentences of 10 to 20 tokens, in the original's ids, each with its end."""
    rng = np.random.default_rng(1)
    lengths = [READ, *rng.integers(READ // 2, READ + 1, n - 1)]
    return [[*rng.integers(UNKNOWN + 1, PAD, length - 1).tolist(), END] for length in lengths]


def padded(sentences: Sentences, padding: int) -> Any:
    """Return sentences as a matrix: (B, T)."""
    ids = np.full((len(sentences), max(map(len, sentences))), padding)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids


def ours(folder: Path, beam: int) -> Callable[[Sentences], Sentences]:
    """Return our translation."""
    import minitransformer as mt

    run = mt.load(folder / "run")
    rules = run.options.search.changed(most_written=WRITTEN, least_written=WRITTEN)
    special = {END: 2, UNKNOWN: 3}
    back = {number: token for token, number in special.items()}

    def translate(sentences: Sentences) -> Sentences:
        source = padded([[special.get(token, token + 2) for token in sentence] for sentence in sentences], 0)
        found = mt.decoding.beam_search(run.model, source, beam, 1.0, rules=rules)
        return [[back.get(token, token - 2) for token in best.tokens] for best, *_ in found]

    return translate


def transformers(folder: Path, beam: int) -> Callable[[Sentences], Sentences]:
    """Return the translation of transformers."""
    import torch
    from transformers import MarianMTModel, logging

    logging.set_verbosity_error()
    model = MarianMTModel.from_pretrained(folder / "original").eval()
    limits = {"num_beams": beam, "min_new_tokens": WRITTEN, "max_new_tokens": WRITTEN, "max_length": None}

    def translate(sentences: Sentences) -> Sentences:
        source = torch.from_numpy(padded(sentences, PAD))
        with torch.inference_mode():
            written = model.generate(input_ids=source, attention_mask=(source != PAD).long(), **limits)
        found: Sentences = written[:, 1:].tolist()
        return found

    return translate


def ctranslate2(folder: Path, beam: int, kind: str, threads: int) -> Callable[[Sentences], Sentences]:
    """Return the translation of CTranslate2 in float32 or int8."""
    import ctranslate2

    ids = json.loads((folder / "original" / "vocab.json").read_text())
    words = list(ids)
    translator = ctranslate2.Translator(str(folder / "converted"), compute_type=kind, intra_threads=threads)

    def translate(sentences: Sentences) -> Sentences:
        results = translator.translate_batch(
            [[words[token] for token in sentence] for sentence in sentences],
            beam_size=beam, min_decoding_length=WRITTEN, max_decoding_length=WRITTEN,
        )  # fmt: skip
        return [[ids[word] for word in result.hypotheses[0]] for result in results]

    return translate


def peak_memory() -> int:
    """Return the most memory that this process has used so far, in bytes; without the package, which takes some."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status["VmHWM"].split()[0])


def serve(work: Callable[[int], object]) -> None:
    """Do some work for each number on the standard input; write what was measured."""
    for line in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        found = work(int(line))
        measured = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "peak": peak_memory()}
        print(json.dumps(measured | {"found": found}), flush=True)


def take_turns(programs: Iterable[str], n: int, rounds: int, threads: int, arguments: Iterable[str]) -> Iterator[str]:
    """Let programs work in turns, each in a process; yield what was measured of each, and what it found at first."""
    from minitransformer.apps.measure.speed.turns import Process

    variables = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ |= dict.fromkeys(variables, str(threads)) | {"HF_HUB_OFFLINE": "1"}
    with ExitStack() as stack:
        commands = [[sys.executable, sys.argv[0], *arguments, "--serve", name] for name in programs]
        processes = [stack.enter_context(Process(command)) for command in commands]
        first, *turns = [[process.ask(n) for process in processes] for _ in range(rounds + 1)]
    for i, name in enumerate(programs):
        seconds, cpu = (median(turn[i][what] for turn in turns) for what in ("seconds", "cpu"))
        ratios = [turn[i]["seconds"] / turn[0]["seconds"] for turn in turns]
        work = median(turn[i]["cpu"] / turn[0]["cpu"] for turn in turns)
        same = sum(one == other for one, other in zip(first[0]["found"], first[i]["found"], strict=True))
        yield (
            f"{name:20}{seconds:8.2f} s ({n * WRITTEN / seconds:.1f} tokens/s), time / first {median(ratios):.2f} "
            f"({min(ratios):.2f}-{max(ratios):.2f}), CPU {cpu:.2f} s, CPU / first {work:.2f}, "
            f"peak {max(turn[i]['peak'] for turn in turns) / 1e6:.0f} MB, same {same} of {n}"
        )


def main() -> None:
    """Compare, or be one of the programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, nargs="+", default=[1, 16, 32], help="translated together")
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where the models are, or are written; by default a temporary one")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        name, _, kind = options.serve.partition(" ")
        given = (options.folder, options.beam)
        translate = {
            "minitransformer": lambda: ours(*given),
            "transformers": lambda: transformers(*given),
            "CTranslate2": lambda: ctranslate2(*given, kind, options.threads),
        }[name]()
        serve(lambda n: translate(sources(n)))
        return
    packages = ("numpy", "torch", "transformers", "ctranslate2")
    print(*(f"{name} {importlib.metadata.version(name)}" for name in packages), sep=", ")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "converted").exists():
            write_models(folder)
        arguments = [f"--folder={folder}", f"--beam={options.beam}", f"--threads={options.threads}"]
        for n in options.sentences:
            print(f"\n{n} sentences, beam {options.beam}, {options.threads} threads, {options.rounds} rounds")
            for line in take_turns(options.programs, n, options.rounds, options.threads, arguments):
                print(line, flush=True)


if __name__ == "__main__":
    main()
