"""Small folders of MarianMTModel: written without transformers, and by it."""

import io
import json
from functools import cache

import numpy as np
from safetensors.numpy import save_file

from minitransformer.apps.interop.huggingface import parameters
from minitransformer.arrays import to_numpy
from minitransformer.ops import sinusoidal_positions

TEXTS = ["a man sees a dog", "the dog runs in the street", "ein Mann sieht einen Hund", "der Hund läuft"]
SIZES = {"d_model": 16, "d_ff": 24, "n_heads": 2, "n_layers": 1}


@cache
def sentencepiece_model(vocab_size=34):
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, model_type="unigram", vocab_size=vocab_size,
        hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


@cache
def tokens(vocab_size=34):
    """Return tokens as OPUS-MT orders them: the end, unknown, the pieces, padding."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(vocab_size))
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor))]
    return ("</s>", "<unk>", *pieces, ">>fra<<", "<pad>")


def write_tokenisers(folder, separate=False):
    folder.mkdir(exist_ok=True)
    files = {"vocab.json": tokens(), **({"target_vocab.json": tokens(30)} if separate else {})}
    for name, found in files.items():
        (folder / name).write_text(json.dumps({token: number for number, token in enumerate(found)}))
    (folder / "source.spm").write_bytes(sentencepiece_model())
    (folder / "target.spm").write_bytes(sentencepiece_model(30) if separate else sentencepiece_model())
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": separate}))


def configuration(d_model, d_ff, n_heads, n_layers):
    size = len(tokens())
    names = {"attention_heads": n_heads, "ffn_dim": d_ff, "layers": n_layers}
    return {
        "model_type": "marian",
        "d_model": d_model,
        **{f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in names.items()},
        "activation_function": "swish",
        "scale_embedding": True,
        "vocab_size": size,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "bad_words_ids": [[size - 1]],
        "num_beams": 2,
        "max_length": 12,
    }


def tensors(seed=0, dtype="float32"):
    rng, lengths = np.random.default_rng(seed), {"D": SIZES["d_model"], "F": SIZES["d_ff"], "3": 16, "H": 16}
    shapes = {"model.shared.weight": (len(tokens()), 16), "final_logits_bias": (1, len(tokens()))}
    for one in parameters(SIZES["n_layers"], SIZES["n_layers"]):
        shape = tuple(lengths[axis] for axis in one.axes)
        shapes |= dict.fromkeys(one.theirs, shape[::-1] if one.transposed else shape)
    return {name: rng.normal(0, 0.3, shape).astype(dtype) for name, shape in shapes.items()}


def write_folder(folder, **changes):
    """Write a folder with random weights; changes are values of config.json."""
    write_tokenisers(folder)
    (folder / "config.json").write_text(json.dumps(configuration(**SIZES) | changes))
    save_file(tensors(), folder / "model.safetensors")
    return folder


def original(folder, dtype=None, separate=False, heads=2, layers=(2, 2), seed=0, **options):
    """Let transformers save a model of random weights, and return it."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    sizes = len(tokens()), len(tokens(30) if separate else tokens())
    pad = sizes[1] - 1
    config = transformers.MarianConfig(
        vocab_size=sizes[0], decoder_vocab_size=sizes[1], **({"d_model": 16} | options), max_position_embeddings=64,
        encoder_layers=layers[0], decoder_layers=layers[1],
        encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=20, decoder_ffn_dim=20, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config).eval().to(dtype or torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # so that translations differ, and some end by themselves
            parameter += torch.randn_like(parameter) * (0.6 if "shared" in name or "embed" in name else 0.25)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += 3
        for stack in (model.model.encoder, model.model.decoder):
            # transformers rounds them to float32, whatever the type of the model
            positions = to_numpy(sinusoidal_positions(64, config.d_model, layout="halves"))
            stack.embed_positions.weight[:] = torch.from_numpy(positions)
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[pad]], decoder_start_token_id=pad, eos_token_id=0, pad_token_id=pad, max_length=16,
        num_beams=4, forced_eos_token_id=0,
    )  # fmt: skip
    model.save_pretrained(folder)
    write_tokenisers(folder, separate)
    return model
