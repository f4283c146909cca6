"""Recipes that come with this package: runs whose results are published, by name."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "recipes"


def recipe_names() -> list[str]:
    """Return the names of the recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def recipe_file(name: str) -> Path | None:
    """Return the file of a recipe, or None if there is none of this name."""
    return FOLDER / f"{name}.toml" if name in recipe_names() else None
