"""The command that copies the tutorials and opens them in JupyterLab, without JupyterLab."""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.cli import main, tutorials
from minitransformer.apps.learn import Book


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone of the repository with three tutorials; JupyterLab is there, and notes what it is told."""
    (tmp_path / "tutorials").mkdir()
    for name in ("01-first.ipynb", "02-second.ipynb", "03-third.ipynb", "03-third.md", "render.py", "words.py"):
        (tmp_path / "tutorials" / name).write_text(f"as shipped: {name}", encoding="utf-8")
    commands = []
    monkeypatch.setattr(tutorials, "CLONE", tmp_path)
    monkeypatch.setattr(tutorials, "find_spec", lambda name: name)
    trusted = []
    monkeypatch.setattr(tutorials.subprocess, "Popen", lambda command: commands.append(command) or Process())
    monkeypatch.setattr(tutorials.subprocess, "run", lambda command, **options: trusted.append((*command, options)))
    return SimpleNamespace(path=tmp_path, commands=commands, trusted=trusted)


class Process:
    """A process that ends after Ctrl-C was pressed twice."""

    def __init__(self):
        self.wait = Mock(side_effect=[KeyboardInterrupt, KeyboardInterrupt, 3])


def test_jupyterlab_opens_a_copy_of_the_first_tutorial(clone, capsys):
    assert main(["tutorials"]) == 3
    copies = clone.path / "my-tutorials"
    notebooks = [copies / name for name in ("01-first.ipynb", "02-second.ipynb", "03-third.ipynb")]
    assert sorted(copies.iterdir()) == [*notebooks, copies / "words.py"]  # which a notebook imports
    (command,) = clone.commands
    assert command == [
        sys.executable,
        *(part.replace("HERE", str(clone.path)) for part in toml_table(__file__, "COMMAND")),
    ]
    (trust,) = clone.trusted  # or JupyterLab would not show their pictures
    assert trust[1:] == ("-m", "jupyter", "trust", *notebooks, {"capture_output": True, "check": False})
    said = f"Your copies of the tutorials are in {copies}. JupyterLab opens 01-first.ipynb. Ctrl-C stops it.\n"
    assert capsys.readouterr() == (said, "")


@cases_from_toml
def test_a_translation_is_opened_where_it_is_the_readers_language(
    clone, monkeypatch, environment, remembered, number, opened
):
    korean = clone.path / "tutorials" / "ko" / "02-second.ipynb"
    korean.parent.mkdir()
    korean.write_text("as shipped: in Korean", encoding="utf-8")
    exercise = clone.path / "01-scalars" / "01_product_rule.py"
    exercise.parent.mkdir()
    exercise.touch()
    Book(clone.path, language=remembered).save()
    monkeypatch.chdir(clone.path)
    monkeypatch.setenv("MINITRANSFORMER_LANG", environment)
    assert main(["tutorials", number, "--no-browser"]) == 3
    assert f"--LabApp.default_url=/lab/tree/my-tutorials/{opened}.ipynb" in clone.commands[0]
    assert clone.commands[0][-1] == "--no-browser"
    copy = clone.path / "my-tutorials" / "ko" / "02-second.ipynb"
    assert copy.read_text(encoding="utf-8") == "as shipped: in Korean"
    assert copy in clone.trusted[0]


def test_what_the_reader_wrote_is_kept(clone):
    mine = clone.path / "my-tutorials" / "02-second.ipynb"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    assert main(["tutorials"]) == 3
    assert mine.read_text(encoding="utf-8") == "mine"
    assert mine not in clone.trusted[0]
    assert (mine.parent / "01-first.ipynb").read_text(encoding="utf-8") == "as shipped: 01-first.ipynb"


def test_without_jupyterlab_the_message_says_how_to_install_it(clone, monkeypatch, capsys):
    monkeypatch.setattr(tutorials, "find_spec", lambda name: None)
    assert main(["tutorials"]) == 2
    assert f'Run `python -m pip install -e "{clone.path}[tutorials]"`' in capsys.readouterr().err
    assert not (clone.path / "my-tutorials").exists()


def test_an_installed_wheel_sends_the_reader_to_the_repository(clone, monkeypatch, capsys):
    monkeypatch.setattr(tutorials, "CLONE", clone.path / "site-packages")
    assert main(["tutorials"]) == 2


def test_the_repository_has_the_tutorials_where_the_command_looks():
    assert list((tutorials.CLONE / "tutorials").glob("0[0-9]-*.ipynb"))
