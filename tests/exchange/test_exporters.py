"""Every exporter names the options of a model that it carries, and refuses the others."""

import errno
import sys
from dataclasses import asdict, dataclass, fields, replace

import pytest
from random_runs import trained

from minitransformer.apps.exchange import WRITERS, ExportError
from minitransformer.apps.exchange.to_ctranslate2 import ALSO_CARRIED
from minitransformer.apps.exchange.writing import CARRIED, CARRIED_RULES
from minitransformer.data import MissingExtraError
from minitransformer.decoding import SearchOptions
from minitransformer.nn import ModelOptions
from minitransformer.options import option
from minitransformer.training import RunError

pytest.importorskip("sentencepiece")


@dataclass(frozen=True, kw_only=True)
class LaterOptions(ModelOptions):
    """The options of a model with one that no exporter knows."""

    embedding_scale: float = option(1.0, "a factor of the embeddings", above=0, added=True)


@dataclass(frozen=True, kw_only=True)
class LaterRules(SearchOptions):
    """The options of a search with one that no exporter knows."""

    novelty: float = option(0.0, "a reward for tokens that are new", at_least=0, added=True)


@pytest.mark.parametrize("program", WRITERS)
@pytest.mark.parametrize("name", ["embedding_scale", "novelty"])
def test_an_option_or_rule_of_the_search_that_an_exporter_does_not_know_is_refused(tmp_path, program, name):
    run = trained(tmp_path / "run")
    if name == "novelty":
        run = run._replace(options=replace(run.options, search=LaterRules(**asdict(run.options.search), novelty=2)))
    else:
        run.transformer.options = LaterOptions(**asdict(run.transformer.options), embedding_scale=2)
    with pytest.raises(ExportError, match=rf"has no option {name}, found 2, expected \d\.0; this model cannot"):
        WRITERS[program](run, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_what_exporters_carry_are_options():
    assert {field.name for field in fields(ModelOptions)} >= CARRIED.union(ALSO_CARRIED)
    assert {field.name for field in fields(SearchOptions)} == {*CARRIED_RULES}


@pytest.mark.parametrize("program", WRITERS)
def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch, program):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if program == "ctranslate2":
        pytest.importorskip(program)
    run = trained(tmp_path / "run")
    monkeypatch.setattr("minitransformer.apps.exchange.writing.put_in_place", full)
    with pytest.raises(RunError, match=r"cannot write .*there: No space left on device"):
        WRITERS[program](run, tmp_path / "there")
    assert [*tmp_path.iterdir()] == [tmp_path / "run"]


@pytest.mark.parametrize("program", WRITERS)
@pytest.mark.parametrize("kept", ["there", "there/mine"])
def test_nothing_is_overwritten(tmp_path, program, kept):
    if program == "ctranslate2":
        pytest.importorskip(program)
    run, out = trained(tmp_path / "run"), tmp_path / "there"
    (tmp_path / kept).parent.mkdir(exist_ok=True)
    (tmp_path / kept).write_text("mine")
    with pytest.raises(RunError) as refused:
        WRITERS[program](run, out)
    assert str(refused.value) == f"{out} exists already; choose another --out"
    assert (tmp_path / kept).read_text() == "mine"


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    told = (
        r"CTranslate2 needs the package ctranslate2, which is not .* with `pip install \"minitransformer\[models\]\"`$"
    )
    with pytest.raises(MissingExtraError, match=told):
        WRITERS["ctranslate2"](trained(tmp_path / "run"), tmp_path / "there")
    assert not (tmp_path / "there").exists()
