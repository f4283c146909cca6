"""Models of CTranslate2, opened here: the oracle is CTranslate2 itself."""

import marian_folders
import numpy as np
import pytest
from ctranslate2_folders import TOKENS
from ctranslate2_oracle import opened_there, same_beams, same_scores, sentences

import minitransformer as mt
from minitransformer.apps.exchange import read_ctranslate2, read_huggingface, write_run
from minitransformer.data import END, Pieces, pad
from minitransformer.decoding import source_sentence

ctranslate2 = pytest.importorskip("ctranslate2")
from ctranslate2.specs import common_spec, transformer_spec  # noqa: E402

WAVES = mt.ops.sinusoidal_positions(40, 16, "float32")
CONFIGURATIONS = {
    # as OpenNMT-tf has it
    "pre-norm, untied, positions from 1": {"shared": False},
    "post-norm, one table, swish": {
        "pre_norm": False, "tied": True, "activation": "SWISH", "scale": 4.0, "settings": {"add_source_eos": True},
        "quantization": "float16",
    },
    # as OpenNMT-py has it
    "interleaved positions, gelu, tied target": {
        "activation": "GELU", "positions": WAVES, "tied": True, "shared": False,
        "settings": {"layer_norm_epsilon": 1e-3},
    },
    "learned positions, quick gelu, int8": {
        "activation": "GELUSigmoid", "positions": WAVES[::-1].copy(), "quantization": "int8", "scale": False,
    },
    "zeros as the start, no attention biases, int16": {
        "pre_norm": False, "biases": False, "quantization": "int16", "zeros": True, "tied": True,
    },
    "no final norm, starts with the end": {
        "no_final_norm": True, "settings": {"decoder_start_token": "</s>"}, "layers": (1, 2), "scale": 1.0,
    },
}  # fmt: skip


def original(
    folder, shared=True, tied=False, activation="RELU", positions=None, scale=True, zeros=False, biases=True, layers=2,
    quantization=None, settings=(), **options,
):  # fmt: skip
    """Write a model of random weights with CTranslate2's own specifications."""
    rng = np.random.default_rng(0)
    spec = transformer_spec.TransformerSpec.from_config(
        layers, 4, activation=getattr(common_spec.Activation, activation), **{"pre_norm": True} | options
    )
    source, target = list(TOKENS), list(TOKENS if shared else (*TOKENS[:3], *"abcdefg"))
    for side, words in (("source", source), ("target", target)):
        getattr(spec, f"register_{side}_vocabulary")(words)

    def draw(*shape):
        return rng.normal(0, 0.4, shape).astype("float32")

    def linear(part, n_out, n_in, bias=True):
        part.weight = draw(n_out, n_in)
        if bias:
            part.bias = draw(n_out)

    def norm(part):
        part.gamma, part.beta = 1 + draw(16), draw(16)

    spec.encoder.embeddings[0].weight = draw(len(source), 16)
    spec.decoder.embeddings.weight = (
        spec.encoder.embeddings[0].weight if tied and shared else draw(len(target) + (not shared), 16)
    )
    if not shared:
        target.append("<unk>")
    linear(spec.decoder.projection, len(target), 16)
    spec.decoder.projection.weight *= 0.1 if "no_final_norm" in options else 1
    if tied:
        spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.decoder.projection.bias[2] += 2  # so that translations end
    spec.decoder.start_from_zero_embedding = zeros
    for stack in (spec.encoder, spec.decoder):
        stack.scale_embeddings = scale
        if positions is not None:
            stack.position_encodings.encodings = positions
        if hasattr(stack, "layer_norm"):
            norm(stack.layer_norm)
        for layer in stack.layer:
            for name in ("self_attention", "attention"):
                if (part := getattr(layer, name, None)) is not None:
                    for one, size in zip(part.linear, (3, 1) if name == "self_attention" else (1, 2, 1), strict=True):
                        linear(one, size * 16, 16, biases)
                        one.weight *= 1.5 if name == "attention" else 1  # so that the source counts
                    norm(part.layer_norm)
            linear(layer.ffn.linear_0, 20, 16)
            linear(layer.ffn.linear_1, 16, 20)
            norm(layer.ffn.layer_norm)
    for name, value in dict(settings).items():
        setattr(spec.config, name, value)
    spec.validate()
    spec.optimize(quantization)
    folder.mkdir()
    spec.save(str(folder))
    return opened_there(folder)


def opened_here(folder, tmp_path, read=read_ctranslate2):
    out = tmp_path / f"run of {folder.name}"
    write_run(read(folder), out)
    return mt.load(out)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_log_probabilities_and_beams_are_the_same(tmp_path, name):
    theirs = original(tmp_path / "there", **CONFIGURATIONS[name])
    run = opened_here(tmp_path / "there", tmp_path)
    pairs = sentences(run, 100)
    end = ["</s>"] if CONFIGURATIONS[name].get("zeros") else []
    same_scores(theirs, run, pairs, end)
    same_beams(theirs, run, pairs, end)


def test_a_model_converted_from_transformers_is_the_same(tmp_path):
    for package in ("torch", "transformers", "sentencepiece"):
        pytest.importorskip(package)
    model = marian_folders.original(tmp_path / "there", activation_function="swish", scale_embedding=True)
    model.model.shared.weight.data[-1] = 0
    model.save_pretrained(tmp_path / "there")
    converter = ctranslate2.converters.TransformersConverter(str(tmp_path / "there"))
    converter.convert(str(tmp_path / "converted"))
    for name in ("source.spm", "target.spm"):
        (tmp_path / "converted" / name).write_bytes((tmp_path / "there" / name).read_bytes())
    theirs = opened_there(tmp_path / "converted")
    run = opened_here(tmp_path / "converted", tmp_path)
    assert isinstance(run.source, Pieces)
    assert run.options.model.position_layout == "halves"
    assert run.options.model.share_embeddings == "all"
    assert source_sentence(run.model, run.source, "a man")[-1] == END
    pairs = sentences(run, 50)
    same_scores(theirs, run, pairs, end=["</s>"])
    same_beams(theirs, run, pairs, end=["</s>"])
    other = opened_here(tmp_path / "there", tmp_path, read_huggingface)
    ids = [pad(side) for side in zip(*pairs, strict=True)]
    np.testing.assert_allclose(run.model(*ids).data[..., END:], other.model(*ids).data[..., END:], atol=1e-5)
    text = ">>fra<< a man sees a dog"
    assert run.source.encode(text) == other.source.encode(text)
