"""Every exporter carries an option of a model, so that the other program computes the same, or refuses it by name.

The options, and the values that each may have, are those that `ModelOptions` declares. What is written is computed by
slow forward passes of the other programs, on the files alone, and opened here again.
"""

from dataclasses import asdict, dataclass, fields, replace

import decoder_folders
import numpy as np
import pytest
from ctranslate2_folders import without_ctranslate2
from exported_runs import BASES, CLASSES, IDS, decoder, logits_here, logits_there, translator
from random_runs import in_memory

from minitransformer.apps.interop import READERS, WRITERS, ExportError
from minitransformer.decoding import SearchOptions
from minitransformer.nn import ModelOptions
from minitransformer.options import OptionError, option

pytest.importorskip("sentencepiece")


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """Let runs be written, and decoders be read, where the other packages are not installed."""
    without_ctranslate2(monkeypatch)
    decoder_folders.without_tokenizers(monkeypatch)


NO_EFFECT = {"attention_block", "recompute", "dropout", "max_length", "dtype", "source_end", "start_token"}
"""Options that change no logit of a sequence of ids; in GPT-2, which learns its positions, their layout does not."""
IN_ANOTHER_FORM = {"d_k": {"d_v"}, "d_model": {"d_k", "d_v"}, "n_heads": {"d_k", "d_v"}, "norm": {"positions"}}
"""What is named where an option decides about another too: Llama's RMSNorm, for example, about the class."""


def values_of(one, base):
    """Return the values of an option other than the base's: all choices, or some in its range."""
    found, told = getattr(base, one.name), one.metadata
    if told["choices"] or one.type in ("bool", "bool | None"):
        return [value for value in told["choices"] or (True, False) if value is not found]
    usual = {"n_decoder_layers": base.decoder_layers, "d_k": base.key_size, "d_v": base.value_size,
             "n_kv_heads": base.kv_heads}.get(one.name, found or 2)  # fmt: skip
    if "int" in one.type:
        return [value for value in (usual * 2, usual + 1, usual // 2) if value and value != usual]
    return [usual * 1.25, usual * 0.75, usual / 100]


def test_the_options_of_a_model_are_numbers_choices_and_switches():
    for base in BASES.values():
        for one in fields(ModelOptions):
            assert values_of(one, base), f"say which values of {one.name} are tried"


@pytest.mark.parametrize("name", [one.name for one in fields(ModelOptions)])
@pytest.mark.parametrize("program", BASES)
def test_every_option_of_a_model_is_carried_or_refused_by_name(tmp_path, program, name):
    base, (one,) = BASES[program], [one for one in fields(ModelOptions) if one.name == name]
    make, write = (decoder if program in CLASSES else translator), WRITERS.get(program, WRITERS["huggingface"])
    first, matters = make(base), name in NO_EFFECT or (program, name) == ("gpt2", "position_layout")
    for value in values_of(one, base):
        there = tmp_path / f"{value}"
        try:
            run = make(base.changed(**{name: value}))
        except OptionError:  # no model has both, such as 3 groups of 4 heads
            continue
        if refusal := refusal_of(write, run, there):
            named = {name, *IN_ANOTHER_FORM.get(name, ())}
            assert any(f" {other} " in refusal.replace(",", " ") for other in named), refusal
            assert not there.exists()
            matters = True
            continue
        expected, again = logits_here(run, *IDS), reopened(program, there)
        tolerance = 1e-5 if value == "float32" or program in ("ctranslate2", "llama") else 1e-9
        for found in (logits_there(program, there, *IDS), logits_here(again, *IDS)):
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max(), rtol=0)
        matters = matters or differs(first, run)
    assert matters, f"{name} has no effect in this model, so nothing was tested: change the base, or NO_EFFECT"


def refusal_of(write, run, out):
    try:
        write(run, out)
    except ExportError as error:
        return f"{error}"


def differs(first, run):
    """Return whether the options of two runs decide about the parameters, or with the same ones about the logits."""
    shapes = [{key: array.shape for key, array in one.model.state_dict().items()} for one in (first, run)]
    if shapes[0] != shapes[1]:
        return True
    run.model.load_state_dict(first.model.state_dict())
    return np.abs(logits_here(first, *IDS) - logits_here(run, *IDS)).max() > 1e-6


def reopened(program, there):
    return in_memory(READERS["ctranslate2" if program == "ctranslate2" else "huggingface"](there))


# ---------------------------------------------------------------------------------------------------------------------
# What comes later


@dataclass(frozen=True, kw_only=True)
class LaterOptions(ModelOptions):
    """The options of a model with one that no exporter knows."""

    embedding_scale: float = option(1.0, "a factor of the embeddings", above=0, added=True)


@dataclass(frozen=True, kw_only=True)
class LaterRules(SearchOptions):
    """The options of a search with one that no exporter knows."""

    novelty: float = option(0.0, "a reward for tokens that are new", at_least=0, added=True)


@pytest.mark.parametrize(
    ("program", "name"), [*((program, "embedding_scale") for program in BASES), *((one, "novelty") for one in WRITERS)]
)
def test_an_option_or_rule_of_the_search_that_an_exporter_does_not_know_is_refused(tmp_path, program, name):
    run = (decoder if program in CLASSES else translator)(BASES[program])
    if name == "novelty":
        run = run._replace(options=replace(run.options, search=LaterRules(**asdict(run.options.search), novelty=2)))
    else:
        run.model.options = LaterOptions(**asdict(run.model.options), embedding_scale=2)
    with pytest.raises(ExportError, match=rf"option {name}, found 2"):
        WRITERS.get(program, WRITERS["huggingface"])(run, tmp_path / "there")
    assert not (tmp_path / "there").exists()
