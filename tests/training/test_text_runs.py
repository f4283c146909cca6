"""Training, resuming and measuring a decoder alone: by the same trainer, in the same run folder."""

import math

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.arrays import to_numpy
from minitransformer.data import RawCharacters, TextBatch, Trigram, UnknownTokenError
from minitransformer.decoding import SamplingOptions
from minitransformer.nn import LanguageModel
from minitransformer.optim import Adam
from minitransformer.options import OptionError
from minitransformer.runs import Configuration, RunError, load
from minitransformer.tasks import build
from minitransformer.training import (
    Trainer,
    average,
    create_run,
    evaluate_text,
    resume,
    text_evaluation,
    training_step,
)
from minitransformer.training.baselines import parsing_lines, trigram_bits, write_by_trigram, write_texts, xz_bits
from minitransformer.training.text_evaluation import UNKNOWN_BITS

SMALL = {
    "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 24, "steps": 6, "warmup_steps": 2, "batch_tokens": 32,
    "window": 8, "evaluate_every": 3, "micro_batches": 1, "min_count": 1, "keep": 5,
}  # fmt: skip


@pytest.fixture
def texts(tmp_path):
    paths = [tmp_path / f"{name}.py" for name in "abc"]
    for i, path in enumerate(paths):
        path.write_text("".join(f"x{n} = {n * i}\n" for n in range(12)))
    return paths


def trained(folder, texts, **changes):
    trainer = Trainer(Configuration.of_task(build("characters"), text=texts, **(SMALL | changes)))
    run = create_run(folder, trainer.configuration, trainer.corpus)
    scores = []
    trainer.train(run, on_evaluation=scores.append)
    return trainer, run, scores


def test_a_run_has_what_other_runs_have(tmp_path, texts):
    trainer, run, scores = trained(tmp_path / "run", texts)
    assert isinstance(trainer.model, LanguageModel)
    assert run.is_finished()
    assert run.is_complete()
    assert run.held_out_text() == trainer.corpus.held_out
    final = run.measurements.final()
    assert final["bits_per_character"] == pytest.approx(final["valid_loss"] / math.log(2))
    assert [score.measurements().keys() for score in scores] == [
        {"bits_per_character", "token_accuracy", "valid_loss"}
    ] * 2
    again = load(run)
    for name, values in trainer.model.state_dict().items():
        np.testing.assert_array_equal(values, again.model.state_dict()[name])
    assert again.task.name == "characters"
    average(run, 2)
    assert load(run).weights == "average"
    (run.path / "held_out.txt").unlink()
    assert not run.is_complete()
    resume(run, pytest.fail)
    assert run.held_out_text() == trainer.corpus.held_out


def test_a_changed_text_or_held_out_file_is_noticed(tmp_path, texts):
    _, run, _ = trained(tmp_path / "run", texts, steps=3)
    texts[0].write_text(texts[0].read_text() + "y = 1\n")
    with pytest.raises(RunError, match=r"a.py has changed since the run"):
        resume(run, pytest.fail)
    (run.path / "held_out.txt").write_text("something else\n")
    with pytest.raises(RunError, match=r"held_out\.txt has changed since the weights were trained"):
        load(run)


def test_shares_give_the_gradient_of_the_whole_batch():
    rng = np.random.default_rng(0)
    batch = TextBatch(rng.integers(1, 9, (5, 6)), rng.integers(3, 9, (5, 6)))
    found = []
    for micro_batches in (1, 3):
        model = LanguageModel(9, d_model=6, n_heads=2, n_layers=1, d_ff=7, dropout=0.2, dtype="float64")
        loss = training_step(model, Adam(model.parameters()), batch, 0.01, 0.1, micro_batches=micro_batches)
        found.append((float(loss), model.state_dict()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    for name, values in found[0][1].items():
        np.testing.assert_allclose(values, found[1][1][name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("by", ["exact_match", "bleu"])
def test_only_the_loss_chooses_the_best_weights(texts, by):
    with pytest.raises(OptionError, match=f"best_by must be loss for the task characters, found {by}"):
        Trainer(Configuration.of_task(build("characters"), text=texts, **SMALL, best_by=by))


def test_a_run_says_what_it_cannot_do(tmp_path, texts):
    _, run, _ = trained(tmp_path / "run", texts)
    with pytest.raises(RunError, match=r"this model continues texts .*minitransformer write RUN TEXT.*run.write"):
        load(run).translate(["x"])


# Writing


def test_a_run_writes_the_same_text_from_the_same_seed(tmp_path, texts, monkeypatch):
    _, run, _ = trained(tmp_path / "run", texts)
    trained_run = load(run)
    text = trained_run.write("x1 = ", 30, SamplingOptions(temperature=0.5), seed=1)
    assert text.startswith("x1 = ")
    assert len(text) == 35  # longer than the window
    assert text == trained_run.write("x1 = ", 30, SamplingOptions(temperature=0.5), seed=1)
    assert text != trained_run.write("x1 = ", 30, SamplingOptions(temperature=0.5), seed=2)
    assert set(text) <= set(trained_run.target.tokens)
    assert trained_run.write(length=0) == ""
    with pytest.raises(UnknownTokenError, match="the model does not know 'é', '한'"):
        trained_run.write("한é=é")
    monkeypatch.setattr(RawCharacters, "stream", lambda self, before, ids: iter([self.decode(before)]))
    assert next(trained_run.continuation("x1 = ")) == "x1 = "


# Bits per character


def model_and_tokeniser(text="abcab\ncba"):
    tokeniser = RawCharacters.train([text])
    return LanguageModel(len(tokeniser), d_model=6, n_heads=2, n_layers=1, d_ff=7, dtype="float64"), tokeniser


@pytest.mark.parametrize("window", [4, 5])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 6, 7, 8, 23])
def test_bits_are_those_of_one_prediction_at_a_time(monkeypatch, window, length):
    model, tokeniser = model_and_tokeniser()
    text = "".join(np.random.default_rng(1).choice(list("abc\n"), length))
    ids, bits, right = tokeniser.encode(text), 0.0, 0
    for i in range(length):
        # the beginning of the window in which a character is predicted
        half = window // 2
        first = 0 if i < window else window + (i - window) // half * half - (window - half)
        logits = to_numpy(model.decode([[1, *ids[first:i]]]).data)[0, -1]
        p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        bits -= np.log2(p[ids[i]])
        right += p.argmax() == ids[i]
    monkeypatch.setattr(text_evaluation, "NUMBERS", (3 * window + 1) * 256)
    rows, decode = [], model.decode
    monkeypatch.setattr(model, "decode", lambda ids: rows.append(len(ids)) or decode(ids))
    scores = evaluate_text(model, tokeniser, text, window)
    n = len(text_evaluation._windows(ids, window))
    assert rows == [3] * (n // 3) + [n % 3] * (n % 3 > 0)  # as many windows together as memory is meant for
    assert scores.bits == pytest.approx(bits / length, rel=1e-10)
    assert scores.token_accuracy == right / length
    assert scores.loss == pytest.approx(bits / length * math.log(2), rel=1e-10)
    assert scores.characters == length


def test_an_unknown_character_costs_what_it_takes_to_name_it():
    model, tokeniser = model_and_tokeniser()
    unknown, other = (evaluate_text(model, tokeniser, f"ab{letter}", 4) for letter in "éü")
    assert unknown == other
    assert unknown.bits == pytest.approx(unknown.loss / math.log(2) + UNKNOWN_BITS / 3)
    several = evaluate_text(model, tokeniser, "éüéa", 4)
    assert several.bits == pytest.approx(several.loss / math.log(2) + 3 * UNKNOWN_BITS / 4)
    assert pytest.approx(math.log2(1114112)) == UNKNOWN_BITS


# Yardsticks


def test_xz_learns_from_the_text_before():
    text = "".join(f"{n * n % 1000003}\n" for n in range(300))
    assert 0 < xz_bits(text, text) < 0.5 < 2 < xz_bits(text) < 8
    assert xz_bits("a" * 1000) < 1


def test_trigram_bits_count_unknown_characters_too():
    tokeniser = RawCharacters.train(["ab"])
    trigram = Trigram(np.array(tokeniser.encode("abab")), len(tokeniser))
    p = trigram.probabilities(np.array(tokeniser.encode("aéé")))
    assert trigram_bits(trigram, tokeniser, "aéé") == pytest.approx((-np.log2(p).sum() + 2 * UNKNOWN_BITS) / 3)


def test_both_models_write_texts_without_special_tokens():
    model, tokeniser = model_and_tokeniser()
    trigram = Trigram(np.array(tokeniser.encode("abcab\ncba")), len(tokeniser))
    for written in (write_texts(model, tokeniser, 4, 3, 20), write_by_trigram(trigram, tokeniser, 3, 20)):
        assert [len(text) for text in written] == [20, 20, 20]
        assert set("".join(written)) <= set("abc\n")
        assert len(set(written)) == 3


@cases_from_toml
def test_a_line_parses_if_it_can_be_a_line_of_a_program(line, parses):
    assert parsing_lines([f"\n{line}\n"]).count == parses


def test_brackets_nested_too_deeply_are_no_line_of_a_program():
    assert parsing_lines([f"\n{400 * '('}\n"]).count == 0


def test_lines_without_code_and_cut_off_lines_do_not_count():
    share = parsing_lines(["cut off\nx = 1\n\n  # note\n  a b\ncut off", "x\ny"])
    assert (share.count, share.total) == (1, 2)
