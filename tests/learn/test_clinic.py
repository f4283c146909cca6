"""The clinic: what is planted, what is measured, who is healthy.

By default one training of a few steps runs. All broken scripts in full, about one minute:

    MINITRANSFORMER_CLINIC=all python -m pytest tests/learn/test_clinic.py
"""

import io
import json
import os
import subprocess
from itertools import permutations
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer import nn, ops
from minitransformer.apps.cli import main
from minitransformer.apps.learn.clinic import (
    ASK,
    CAUSES,
    Progress,
    ScriptError,
    broken_scripts,
    diagnose,
    examine_text,
    judge,
    overview,
)
from minitransformer.apps.learn.clinic import examination as examination_module
from minitransformer.apps.learn.clinic import visit as visit_module
from minitransformer.apps.learn.clinic.broken_scripts import healthy, open_script
from minitransformer.apps.learn.clinic.disguise import disguise
from minitransformer.apps.learn.clinic.examination import _score, _writing, examine, gradient_norms
from minitransformer.apps.learn.clinic.show import HEIGHT, curve
from minitransformer.apps.learn.solutions import edit
from minitransformer.autograd import no_grad
from minitransformer.data import END, START

ALL = os.environ.get("MINITRANSFORMER_CLINIC") == "all"
in_full = pytest.mark.skipif(not ALL, reason="trains in full: set MINITRANSFORMER_CLINIC=all")
SMALL = {"STEPS": 3, "WARMUP": 2, "BATCH": 6, "LONGEST": 3}
SHORT = healthy().replace("250, 64", "2, 6").replace("025, 100", "025, 1")


def module(text, **constants):
    script = ModuleType("script")
    exec(compile(text, "script.py", "exec"), script.__dict__)
    vars(script).update(constants)
    return script


@pytest.fixture(scope="module")
def report():
    """Return what is measured in a healthy training of four steps, as another process would read it."""
    return json.loads(json.dumps(examine(module(healthy(), STEPS=4, WARMUP=2, BATCH=6), n=3)))


@pytest.fixture
def clinic(tmp_path, capsys, monkeypatch, report):
    """Return the command, with trainings that all give the same report."""
    folder = tmp_path / "my-exercises"
    monkeypatch.setattr(visit_module, "_train", lambda text, name, time_limit: clinic.report)
    draw = "minitransformer.apps.plots.training_curves"
    monkeypatch.setattr(draw, lambda lines, path, _: path.write_text(str(lines[0])))

    def clinic(*words):
        status = main(["learn", "clinic", *words, "--folder", str(folder)])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    clinic.folder, clinic.report = folder, report
    return clinic


def test_each_script_has_one_fault_that_nothing_names():
    assert len(broken_scripts()) == 10
    assert len({script.cause for script in broken_scripts()}) == 10
    assert {script.cause for script in broken_scripts()} < CAUSES.keys()
    assert {cause.ask for cause in CAUSES.values()} <= ASK.keys()
    for script in broken_scripts():
        compile(script.text, script.file, "exec")
        assert script.cause not in script.text + script.file + script.name
        sound, lines = disguise(healthy(), script.number).splitlines(), script.text.splitlines()
        changed = [line for line in lines if line not in sound]
        assert len(changed) == 1 - (len(sound) - len(lines))
        assert not any("#" in line for line in changed)


@pytest.mark.parametrize("script", broken_scripts(), ids=lambda script: script.name)
def test_a_script_without_its_fault_trains_as_the_healthy_script_does(script):
    """Other names, another order and another seed change no number, so that what is measured is the fault."""

    def losses(text, **constants):
        found = []
        module(text, **SMALL, **constants).train(lambda model, step, loss: found.append(loss))
        return found

    sound = disguise(healthy(), script.number)
    assert losses(sound) == losses(healthy(), SEED=module(sound).SEED)
    assert len({module(one.text).SEED for one in broken_scripts()}) == 3


def test_a_comparison_of_two_scripts_shows_no_fault():
    """More than twenty lines of one script stand nowhere in another, its fault among them."""
    texts = [{line for line in script.text.splitlines() if line} for script in broken_scripts()]
    for one, other in permutations(texts, 2):
        assert len(one - other) > 20


def test_a_fault_is_planted_at_one_place_only():
    for old in ("nowhere", "WARMUP"):
        with pytest.raises(ValueError, match="expected it once"):
            edit(healthy(), old, "", "the healthy script")


def test_a_healthy_training_gives_no_sign_of_any_fault(report):
    signs = {name for name, cause in CAUSES.items() if cause.finding(report)[0]}
    assert signs == {"too-few-steps"}  # it had four
    assert len(report["samples"]) == 1  # a fifth of three rows, and at least one


def test_the_healthy_script_writes_the_token_with_the_highest_score_and_warms_up(report):
    script, source = module(healthy(), STEPS=2, WARMUP=2, BATCH=6), np.array([[3, 4, 5, END], [6, END, 0, 0]])
    model = script.train(lambda *_: None)
    written = script.write(model, source)
    with no_grad():
        logits = model(source, np.column_stack([[START, START], written[:, :-1]])).data
    np.testing.assert_array_equal(written, logits.argmax(axis=-1))
    rates = [module(healthy()).learning_rate(step) for step in (1, 50, 100, 175, 250)]
    np.testing.assert_allclose(rates, [0.00025, 0.0125, 0.025, 0.025 * 76 / 151, 0.025 / 151])
    assert report["rates"] == [0.0125, 0.025, 0.025 * 2 / 3, 0.025 / 3]


@pytest.mark.parametrize("script", broken_scripts(), ids=lambda script: script.cause)
def test_a_fault_shows_after_a_few_steps(script):
    """Where all weights of a matrix are equal, embeddings of different tokens are too."""
    warm_up = {"WARMUP": 1} if script.cause == "no-warm-up" else {}
    found = json.loads(json.dumps(examine(module(script.text, **SMALL | warm_up), n=3)))
    signs = {name for name, cause in CAUSES.items() if cause.finding(found)[0]}
    assert signs - {"too-few-steps", "embeddings-not-scaled"} == {script.cause}


def test_every_measurement_fits_a_terminal(report):
    for words in (*(ask(report) for ask in ASK.values()), overview(report)):
        assert max(map(len, words.splitlines())) <= 79
    assert "nan" not in overview(report)
    assert "no number is finite" in ASK["loss"](report | {"losses": [float("nan")]})


def test_a_script_is_written_once_and_never_overwritten(clinic):
    status, text = clinic("3")
    path = clinic.folder / "clinic" / "03_script.py"
    assert status == 1  # still broken
    assert path.read_text() == broken_scripts()[2].text
    assert "names the cause" in " ".join(text.split())
    assert str(path.with_suffix(".png")) in clinic("3", "--ask", "loss")[1]
    assert path.with_suffix(".png").read_text() == str({"step": 1, "loss": clinic.report["losses"][0]})
    path.write_text("# mine\n")
    assert "Learning rate" in clinic(str(path), "--ask", "rate")[1]
    assert path.read_text() == "# mine\n"


def test_a_file_and_progress_of_an_earlier_version_are_kept(tmp_path):
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "03_patient.py").write_text("# mine\n")
    (tmp_path / "clinic" / ".chart.json").write_text('{"diagnosed": [3], "healed": [3]}')
    path = open_script(broken_scripts()[2], tmp_path)
    assert [file.name for file in path.parent.glob("*.py")] == [path.name]
    assert path.read_text() == "# mine\n"
    assert Progress.read(tmp_path) == Progress(diagnosed=[3], fixed=[3])


def test_a_link_in_place_of_the_folder_is_not_written_through(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "01_script.py").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "clinic").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        open_script(broken_scripts()[0], tmp_path / "mine")


def test_what_a_learner_finds_in_the_folder_names_no_cause(clinic):
    text = clinic("6")[1] + clinic("6", "--ask", "loss")[1]
    for path in clinic.folder.rglob("*"):
        text += path.name + (path.read_text() if path.is_file() else "")
    assert not [word for word in ("healthy", *CAUSES) if word in text]
    # nor does a diagnosis that is wrong name the right one
    assert broken_scripts()[5].cause not in clinic("6", "--diagnosis", "rate-too-low")[1]


@cases_from_toml
def test_a_training_that_is_larger_or_no_training_is_not_healthy(report, change, said):
    assert judge(report | {"score": 1.0}, "dropout-in-evaluation")[0]
    right, words = judge(report | {"score": 1.0} | change, "dropout-in-evaluation")
    assert not right
    assert said in words


def test_a_training_with_more_steps_is_not_healthy(report):
    right, words = judge(report | {"score": 1.0, "rates": 251 * [0.01]}, "dropout-in-evaluation")
    assert (right, "251 steps" in words) == (False, True)
    few = CAUSES["too-few-steps"].finding
    assert [few({"rates": n * [0.01]})[0] for n in (199, 200)] == [True, False]


def test_a_report_is_kept_until_the_script_or_the_examination_changes(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(visit_module, "_train", lambda text, *_: trained.append(text) or {"losses": []})
    kept = tmp_path / "report.json"
    for text in ("a", "a", "b"):
        examine_text(text, "script.py", kept)
    kept.write_text("[")
    examine_text("b", "script.py", kept)
    assert trained == ["a", "b", "b"]
    assert visit_module.find_report("b", kept) == {"losses": []}
    monkeypatch.setattr(visit_module, "HERE", tmp_path)
    (tmp_path / "examination.py").write_text("# a newer version\n")
    assert visit_module.find_report("b", kept) is None


NO_MODEL = "ValueError: train must return the model, and train it with optim.Adam"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("STEPS = 3\ntrain(", "line 2 is not Python: '(' was never closed"),
        ("STEPS = 3\n", "ValueError: the file no longer defines train, write"),
        ("STEPS = 3\ndef train(w):\n    return q\ndef write(): ...",
         "line 3, in train: NameError: name 'q' is not defined"),
        ("print(end='half a line')\nexit()\n", "line 2, in <module>: SystemExit: None"),
        ("raise KeyError(__file__)\n", "line 1, in <module>: KeyError: 'script.py'"),
        ("STEPS = 3\ndef train(watch): ...\ndef write(): ...\n", NO_MODEL),
        (SHORT.replace("optimiser.step(", "("), NO_MODEL),
        (SHORT.replace("        watch(model", "        (model"),
         "ValueError: train called watch 0 times in 2 steps; call it after each step"),
        (SHORT.replace(" 2, 6", " 1, 6"),
         "ValueError: train must call the model and then ops.cross_entropy, in two steps at least"),
    ],
)  # fmt: skip
def test_a_script_that_fails_is_explained_by_its_line(monkeypatch, capsys, text, said):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    monkeypatch.setattr("sys.argv", ["examination", "script.py"])
    examination_module.main()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["error"] == said


def test_a_row_is_exact_if_it_is_the_answer_up_to_the_end_token():
    for written in ([5, 4, END], [5, 4, END, 7]):
        assert _score([[4, 5]], [written]) == 1
    for written in ([5, 4], [4, 5, END], [5, END, 4], [5, 4, 4, END]):
        assert _score([[4, 5]], [written]) == 0


def test_the_blank_score_is_that_of_a_model_without_weights():
    script, blank = module(SHORT), []

    def write(model, source):
        blank.append(not any(parameter.data.any() for parameter in model.parameters()))
        return sound(model, source)

    sound, script.write = script.write, write
    found = examine(script, n=3)
    assert blank == [False] * (len(blank) - 1) + [True]
    assert all(weight["start"] != weight["end"] for weight in found["weights"])


@pytest.mark.parametrize("says", ["labels", "read", "shifted"])
def test_what_is_measured_inside_a_model(monkeypatch, says):
    """A model with known attention, which gives the right answer, repeats what it reads, or does neither."""
    rows = examination_module.held_out(70, seed=3)
    attention = iter([0.5, 0.25, 0.75])

    def attend(this, x, memory=None, mask=None, causal=False, maps=None, **_):
        """Give the first key a share, and the rest to the last."""
        weights = np.zeros((len(x), 2, x.shape[1], (x if memory is None else memory).shape[1]))
        share = next(attention)
        weights[..., 0], weights[..., -1] = share, 1 - share
        maps.append(weights)

    def call(source, read):
        if asked:  # other tokens from position 3 on change what is said at position 2 a little, later ones much
            assert (read[:, :3] == asked[0][1][:, :3]).all()
            assert (read[:, 3:] != asked[0][1][:, 3:]).all()
            moved = np.where(np.arange(read.shape[1]) < 2, 0.0, np.where(np.arange(read.shape[1]) == 2, 0.5, 9.0))
            return SimpleNamespace(data=first[0] + moved[:, None])
        asked.append((source, read))
        for layer in ((source,), (read,), (read, source)):
            nn.MultiHeadAttention.__call__(None, *layer)
        right = np.concatenate((read[:, 1:], np.full((50, 1), END)), axis=1)
        right[np.arange(50), [len(row) for row in rows[:50]]] = END
        given = {"labels": right, "read": read, "shifted": (read + 1) % 13}
        first.append(np.eye(13)[given[says]])
        return SimpleNamespace(data=first[0])

    asked, first = [], []
    monkeypatch.setattr(nn.MultiHeadAttention, "__call__", attend)
    model = type("Model", (), {"training": True, "__call__": lambda self, source, read: call(source, read)})()
    found = examination_module._inside(model, rows)
    source, read = asked[0]
    assert (source.shape, model.training) == ((50, 6 + examination_module.MORE_PADDING // 2), False)
    counted = [(row, t) for row, tokens in enumerate(rows[:50]) for t in range(len(tokens) + 1)]
    answers = [[*reversed(row), END] for row in rows[:50]]
    said = {"labels": lambda row, t: answers[row][t], "read": lambda row, t: read[row, t]}
    said["shifted"] = lambda row, t: (read[row, t] + 1) % 13
    assert found["token_accuracy"] == pytest.approx(
        np.mean([said[says](row, t) == answers[row][t] for row, t in counted])
    )
    assert found["copies_input"] == pytest.approx(np.mean([said[says](row, t) == read[row, t] for row, t in counted]))
    assert (found["on_tokens"], found["on_padding"]) == (0.75, 0.25)  # the last key is always padding
    assert found["looks_ahead"] == 0.5
    width, length = len(rows[0]) + 3, len(rows[0]) + 1
    shapes = {name: np.shape(found["maps"][name]) for name in ("encoder", "decoder", "cross")}
    assert shapes == {"encoder": (width, width), "decoder": (length, length), "cross": (length, width)}
    assert [found["maps"][name][0][0] for name in ("encoder", "decoder", "cross")] == [0.5, 0.25, 0.75]
    assert (found["map_rows"], found["map_columns"]) == (read[0, :length].tolist(), source[0, :width].tolist())


def test_texts_are_written_in_a_batch_again_and_alone():
    """Of ten rows the first two are written again, and alone; each way is wrong in another place."""
    rows, calls = [[3 + i, 4, 5 + i] for i in range(8)] + [[3, 3, 4]] * 2, []
    right = [[*row[::-1], END] for row in rows]

    def write(model, source):
        calls.append(source.shape)
        texts = [list(text) for text in right[: len(source)]] if len(source) > 1 else [right[len(calls) - 3][:]]
        wrong = {1: [0, 4, 5], 2: [1]}.get(len(calls), [])
        return [[11, *text[1:]] if i in wrong else text for i, text in enumerate(texts)]

    found = _writing(SimpleNamespace(write=write), None, rows)
    more = examination_module.MORE_PADDING
    assert calls == [(10, 4 + more), (2, 4 + more), (1, 4), (1, 4)]
    assert (found["score"], found["alone_score"], found["repeated"]) == (0.7, 1.0, 0.0)
    assert [sample["source"] for sample in found["samples"]] == rows[:2]
    assert [sample["wanted"] for sample in found["samples"]] == right[:2]
    assert [sample["wide"] == sample["wanted"] for sample in found["samples"]] == [False, True]
    assert [sample["again"] == sample["wanted"] for sample in found["samples"]] == [True, False]
    assert [sample["alone"] == sample["wanted"] for sample in found["samples"]] == [True, True]


def test_the_zeros_of_all_gradients_are_counted():
    grads = {"table": np.array([0.0, 0.0, 1.0]), "decoder.0.a": None, "decoder.0.b": np.array([[2.0, 0.0]], "f4")}
    parameters = [(name, SimpleNamespace(grad=grad)) for name, grad in grads.items()]
    model = SimpleNamespace(
        parameters=lambda: [one for _, one in parameters], named_parameters=lambda: iter(parameters)
    )
    recorder = examination_module.Recorder([2])
    recorder.losses.append(1.0)
    recorder.watch(model, 2, 0.5)
    assert recorder.gradients == {"types": ["float32", "float64"], "zeros": 0.6}
    assert recorder.norms == {2: {"table": 1.0, "decoder 1": 2.0}}


def test_a_recorded_loss_is_that_of_all_its_arguments():
    given, options = (np.array([[1.0, 2.0, 4.0], [0.5, 0.0, 3.0]]), np.array([0, 1])), (0.25, 1)
    right = ops.cross_entropy(*given, *options).item()
    with examination_module.Recorder([2]).installed():
        losses = [ops.cross_entropy(*given, *options), ops.cross_entropy(*given, label_smoothing=0.25, ignore_index=1)]
    assert [loss.item() for loss in losses] == [right, right]


def test_the_norm_of_a_part_is_over_all_its_weights():
    weights = {"decoder.0.a": [3.0], "decoder.0.b": [0.0, 4.0], "table": [2.0]}
    named = [(name, SimpleNamespace(grad=np.array(grad))) for name, grad in weights.items()]
    assert gradient_norms(SimpleNamespace(named_parameters=lambda: named)) == {"decoder 1": 5.0, "table": 2.0}


REPORT = toml_table(__file__, "REPORT")


@pytest.mark.parametrize("ask", ASK)
def test_a_measurement_shows_its_numbers(ask):
    lines = [line.split() for line in ASK[ask](REPORT).splitlines()]
    expected = toml_table(__file__, "SHOWN")[ask]
    assert [row for row in expected if row.split() not in lines] == []


@pytest.mark.parametrize("n", [1, 4, 60, 300])
def test_a_curve_marks_the_mean_of_each_column_on_its_level(n):
    values = np.random.default_rng(n).normal(size=n) + 1
    title, *rows, _, steps = curve(values, "title").splitlines()
    assert (title, len(rows), steps.split()[-1]) == ("title", HEIGHT, str(n))
    levels = [float(row.partition("|")[0]) for row in rows]
    drawn = np.array([[*f"{row.partition('|')[2]:<60}"] for row in rows]) == "*"
    means = [part.mean() for part in np.array_split(values, min(60, n))]
    assert drawn.sum(axis=0).tolist() == [1] * len(means) + [0] * (60 - len(means))
    assert (levels[0], levels[-1]) == pytest.approx((max(means), min(0, *means, 0)), abs=6e-4)
    for mean, column in zip(means, drawn.T, strict=False):
        assert levels[int(np.argmax(column))] == pytest.approx(mean, abs=(levels[0] - levels[1]) / 2 + 1e-3)


@cases_from_toml
def test_evidence_speaks_for_a_cause_on_one_side_of_its_bound(change, gained, lost):
    before = {"dropout-in-evaluation", "embeddings-not-scaled", "gradients-not-cleared", "too-few-steps"}
    for report, expected in ((REPORT, before), (REPORT | change, before - {*lost} | {*gained})):
        assert {name for name, cause in CAUSES.items() if cause.finding(report)[0]} == expected


def test_evidence_names_what_was_measured_and_is_for_or_against():
    """The right diagnosis is always told what speaks for it."""
    expected = toml_table(__file__, "EVIDENCE")
    assert expected.keys() == CAUSES.keys()
    for name, figures in expected.items():
        supports, words = CAUSES[name].finding(REPORT)
        assert [figure for figure in figures if figure not in words] == [], words
        for script in broken_scripts():
            right, told = diagnose(script, name, REPORT)
            assert right == (script.cause == name)
            assert told.startswith("For it: " if right or supports else "Against it: ")
            assert words in told


def test_labels_may_be_handed_to_the_loss_in_one_row():
    text = SHORT.replace(
        "cross_entropy(logits, target[:, 1:]", "cross_entropy(logits.reshape(-1, 13), target[:, 1:].ravel()"
    )
    found = examine(module(text), n=3)
    assert {name for name, cause in CAUSES.items() if cause.finding(found)[0]} == {"no-warm-up", "too-few-steps"}


def test_a_process_that_dies_or_never_ends_is_told(tmp_path, monkeypatch):
    ends = {
        "did not end within 7 s": subprocess.TimeoutExpired("python", 7),
        "ended with status -9: Killed": subprocess.CompletedProcess([], -9, "{}\n", "Killed\n"),
        "line 3: KeyError": subprocess.CompletedProcess([], 0, '\n{"error": "line 3: KeyError"}\n', ""),
    }
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    for said, end in ends.items():

        def run(*_, timeout, env, end=end, **__):
            assert timeout == 7
            assert (env["OPENBLAS_NUM_THREADS"], env["MINITRANSFORMER_BACKEND"]) == ("1", "numpy")
            assert (env["OMP_NUM_THREADS"], env["PYTHONIOENCODING"]) == ("1", "utf-8")
            if isinstance(end, Exception):
                raise end
            return end

        monkeypatch.setattr(subprocess, "run", run)
        with pytest.raises(ScriptError, match=said):
            examine_text("text", "script.py", tmp_path / "report.json", time_limit=7)
    assert not (tmp_path / "report.json").exists()


def test_a_chart_lists_each_script_once_in_order_and_is_begun_again_when_damaged(tmp_path):
    (tmp_path / "clinic").mkdir()
    for damage in ("{", "[]", '{"fixed": ["x"]}', '{"fixed": 3}'):
        (tmp_path / "clinic" / ".chart.json").write_text(damage)
        assert Progress.read(tmp_path) == Progress()
    for kind, number in (("fixed", 5), ("diagnosed", 2), ("fixed", 1), ("fixed", 5), ("diagnosed", 2)):
        Progress.note(tmp_path, kind, number)
    assert Progress.read(tmp_path) == Progress(diagnosed=[2], fixed=[1, 5])


def test_held_out_rows_have_three_to_five_digits_of_every_kind():
    rows = examination_module.held_out(200)
    assert {len(row) for row in rows} == {3, 4, 5}
    assert {digit for row in rows for digit in row} == {*range(3, 13)}
    assert rows[:9] != examination_module.held_out(9, seed=3)


@in_full
@pytest.mark.parametrize("script", broken_scripts(), ids=lambda script: script.name)
def test_each_script_is_broken_in_its_own_way(script, tmp_path):
    found = examine_text(script.text, script.file, tmp_path / "report.json")
    assert not judge(found, script.cause)[0]
    assert {name for name, cause in CAUSES.items() if cause.finding(found)[0]} == {script.cause}


@in_full
@pytest.mark.parametrize("script", broken_scripts(), ids=lambda script: script.name)
def test_each_mended_script_is_healthy(script, tmp_path):
    found = examine_text(disguise(healthy(), script.number), script.file, tmp_path / "report.json")
    assert judge(found, script.cause)[0], judge(found, script.cause)[1]


@in_full
def test_the_mended_script_is_healthy_and_has_the_size_that_is_allowed(tmp_path):
    # Mended in other words than the healthy script's.
    text = edit(healthy(), "(source != PAD)[:, None, None, :]", "ops.padding_mask(source)", "the healthy script")
    found = examine_text(text, "script.py", tmp_path / "report.json")
    assert judge(found, broken_scripts()[-1].cause)[0]
    assert found["score"] > 0.95
    assert (len(found["rates"]), found["parameters"]) == (visit_module.STEPS, visit_module.PARAMETERS)
    assert found["targets"] == visit_module.TARGETS


@in_full
def test_a_script_that_never_ends_is_stopped(tmp_path):
    with pytest.raises(ScriptError, match="did not end within 2 s"):
        examine_text("while True: pass", "script.py", tmp_path / "report.json", time_limit=2)
