"""The command that copies the tutorials and opens them in JupyterLab, without JupyterLab."""

from types import SimpleNamespace

import pytest

from minitransformer.apps.cli import main, tutorials


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
    monkeypatch.setattr(tutorials.subprocess, "Popen", lambda command: commands.append(command) or Process(0))
    monkeypatch.setattr(tutorials.subprocess, "run", lambda command, **options: trusted.append((*command, options)))
    return SimpleNamespace(path=tmp_path, commands=commands, trusted=trusted)


class Process:
    """A process that is interrupted a few times before it ends with a status."""

    def __init__(self, status, interruptions=0):
        self.status, self.interruptions = status, interruptions

    def wait(self):
        if self.interruptions:
            self.interruptions -= 1
            raise KeyboardInterrupt
        return self.status


def test_jupyterlab_opens_a_copy_of_the_first_tutorial(clone, capsys):
    assert main(["tutorials"]) == 0
    copies = clone.path / "my-tutorials"
    notebooks = [copies / name for name in ("01-first.ipynb", "02-second.ipynb", "03-third.ipynb")]
    assert sorted(copies.iterdir()) == [*notebooks, copies / "words.py"]  # which a notebook imports
    (command,) = clone.commands
    assert command[1:3] == ["-m", "jupyterlab"]
    assert "--LabApp.default_url=/lab/tree/my-tutorials/01-first.ipynb" in command
    assert f"--ServerApp.root_dir={clone.path}" in command  # so that links to ../docs and ../minitransformer work
    assert "--no-browser" not in command
    assert "--ServerApp.allow_root=True" in command  # or it would not start in a container
    assert {  # nothing is sent anywhere
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
        "--LabApp.extension_manager=readonly",
        "--LanguageServerManager.autodetect=False",
    } <= set(command)
    (trust,) = clone.trusted  # or JupyterLab would not show their pictures
    assert trust[1:] == ("-m", "jupyter", "trust", *notebooks, {"capture_output": True, "check": False})
    assert str(copies) in capsys.readouterr().out


def test_a_tutorial_is_chosen_by_its_number(clone):
    assert main(["tutorials", "3", "--no-browser"]) == 0
    assert "--LabApp.default_url=/lab/tree/my-tutorials/03-third.ipynb" in clone.commands[0]
    assert clone.commands[0][-1] == "--no-browser"


def test_translations_are_copied_beside_what_they_translate(clone):
    korean = clone.path / "tutorials" / "ko" / "01-first.ipynb"
    korean.parent.mkdir()
    korean.write_text("as shipped: in Korean", encoding="utf-8")
    assert main(["tutorials"]) == 0
    copy = clone.path / "my-tutorials" / "ko" / "01-first.ipynb"
    assert copy.read_text(encoding="utf-8") == "as shipped: in Korean"
    assert copy in clone.trusted[0]


def test_what_the_reader_wrote_is_kept(clone):
    mine = clone.path / "my-tutorials" / "02-second.ipynb"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    assert main(["tutorials"]) == 0
    assert mine.read_text(encoding="utf-8") == "mine"
    assert mine not in clone.trusted[0]
    assert (mine.parent / "01-first.ipynb").read_text(encoding="utf-8") == "as shipped: 01-first.ipynb"


@pytest.mark.parametrize("number", ["0", "4", "-1"])
def test_a_number_that_no_tutorial_has_is_refused(clone, capsys, number):
    assert main(["tutorials", number]) == 2
    assert f"found no tutorial {number}, expected one of 1, 2, 3" in capsys.readouterr().err
    assert not clone.commands
    assert not (clone.path / "my-tutorials").exists()


def test_without_jupyterlab_the_message_says_how_to_install_it(clone, monkeypatch, capsys):
    monkeypatch.setattr(tutorials, "find_spec", lambda name: None)
    assert main(["tutorials"]) == 2
    assert f'Run `python -m pip install -e "{clone.path}[tutorials]"`' in capsys.readouterr().err
    assert not (clone.path / "my-tutorials").exists()


def test_an_installed_wheel_sends_the_reader_to_the_repository(clone, monkeypatch, capsys):
    monkeypatch.setattr(tutorials, "CLONE", clone.path / "site-packages")
    assert main(["tutorials"]) == 2


def test_ctrl_c_is_left_to_jupyterlab():
    assert tutorials.wait_for(Process(3, interruptions=2)) == 3


def test_the_repository_has_the_tutorials_where_the_command_looks():
    assert list((tutorials.CLONE / "tutorials").glob("0[0-9]-*.ipynb"))
