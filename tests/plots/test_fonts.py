import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.ttLib.tables._g_l_y_f import Glyph
from matplotlib import font_manager
from toml_cases import cases_from_toml

from minitransformer.apps import cli
from minitransformer.apps.plots import attention_map, fonts
from minitransformer.apps.plots.fonts import BASE, MISSING, Face, _add_new_fonts, face_for, spell_out


@pytest.fixture
def only_own_fonts(monkeypatch):
    """Leave matplotlib with the DejaVu fonts alone, whatever this machine has installed."""
    manager = font_manager.fontManager
    own = [font for font in manager.ttflist if font.name.startswith("DejaVu")]
    monkeypatch.setattr(manager, "ttflist", [*own])
    monkeypatch.setattr(fonts, "findSystemFonts", list)
    # Where a font of its list is gone, matplotlib lists all that are installed anew.
    monkeypatch.setattr(font_manager, "_load_fontmanager", lambda **_: SimpleNamespace(ttflist=[*own]))


def make_font(path, family, characters):
    """Write a font that claims the characters; their glyphs are empty."""
    names = {ord(char): f"glyph{ord(char)}" for char in characters}
    order = [".notdef", *names.values()]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(order)
    builder.setupCharacterMap(names)
    builder.setupGlyf({name: Glyph() for name in order})
    builder.setupHorizontalMetrics({name: (1000, 0) for name in order})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "fullName": family, "styleName": "Regular"})
    builder.setupOS2(usWeightClass={"Light": 300, "Black": 900}.get(family.split()[-1], 400))
    builder.setupPost()
    builder.save(path)


@pytest.mark.usefixtures("only_own_fonts")
def test_missing_glyphs_are_spelt_out(monkeypatch):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        face_for(["か"])
        face = face_for(["사백 四"])
    assert [str(one.message) for one in found] == [MISSING]
    assert "install a font that has them, such as Noto Sans CJK or Nanum Gothic, and draw again" in MISSING
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "argv", ["minitransformer", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert warnings.formatwarning(found[0].message, UserWarning, "fonts.py", 1) == f"note: {MISSING}\n"
    assert warnings.formatwarning("two\nlines\x1b[1m", UserWarning, "fonts.py", 1) == "note: two\\nlines\\x1b[1m\n"
    assert face.families == (BASE,)
    assert face.readable("사백 四 x") == "sabaeg U+56DB x"


@cases_from_toml
def test_spelt(char, expected):
    assert spell_out(char) == expected


@cases_from_toml
@pytest.mark.usefixtures("only_own_fonts")
def test_an_installed_font_is_chosen_by_its_characters(tmp_path, installed, texts, families, readable):
    for family, characters in installed.items():
        make_font(tmp_path / f"{family}.ttf", family, characters)
        font_manager.fontManager.addfont(tmp_path / f"{family}.ttf")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        face = face_for(texts)
    assert face.families == (BASE, *families)
    assert [face.readable(text) for text in texts] == readable
    assert len(told) == ("U+56DB" in readable[0])


@pytest.mark.usefixtures("only_own_fonts")
def test_drawing_with_a_second_font_warns_of_nothing(tmp_path, caplog):
    make_font(tmp_path / "all.ttf", "Some Gothic", "사백")
    font_manager.fontManager.addfont(tmp_path / "all.ttf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no installed font")
        attention_map(np.eye(2), ["four", "hundred"], ["사", "백四"], tmp_path / "map.png", "사백 四")
    assert not caplog.records


@pytest.mark.usefixtures("only_own_fonts")
def test_a_font_that_is_gone_is_passed_over_and_a_new_one_is_found(tmp_path, monkeypatch):
    gone, broken, new = (tmp_path / f"{name}.ttf" for name in ("gone", "broken", "new"))
    make_font(gone, "Gone", "사")
    font_manager.fontManager.addfont(gone)
    gone.unlink()
    broken.write_bytes(b"no font")
    make_font(new, "New", "사")
    with pytest.warns(UserWarning, match="no installed font"):
        assert face_for(["사"]).families == (BASE,)
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [f"{broken}", f"{new}"])
    _add_new_fonts.cache_clear()
    assert face_for(["사"]).families == (BASE, "New")


def test_tokens_show_their_spaces():
    face = face_for([])
    assert face.token("a b") == "a␣b"
    assert face.token("\t\n") == r"\t\n"
    assert isinstance(face, Face)
