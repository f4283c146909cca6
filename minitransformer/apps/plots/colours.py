"""The colours of all pictures: the order of the curves, and three colour maps that matplotlib knows by name.

``attention``
    From white at 0 to dark brown: attention weights, and nothing else.
``signed``
    From dark blue over white at 0 to dark brown: numbers of both signs. Give ``vmin=-limit, vmax=limit``.
``magnitude``
    From white at 0 to dark blue: any other numbers from 0 upwards.

The explorer uses the same colours.
"""

import sys
from importlib import import_module

import matplotlib as mpl
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap

# The colours of Okabe and Ito, which people who are colour-blind can tell apart.
BLUE, ORANGE, PURPLE, SKY, GREEN, YELLOW, RED, GREY = (
    "#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#009E73", "#F0E442", "#D55E00", "#B0B0B0",
)  # fmt: skip
FAINT = "0.35"
STYLES = (
    (BLUE, "o", "-"), (ORANGE, "s", (0, (6, 2))), (PURPLE, "^", (0, (4, 1.5, 1, 1.5))), (GREEN, "D", (0, (2, 1.5))),
)  # fmt: skip
"""Colour, marker and line of each layer, in the order of the table."""

BLUES, BROWNS = ("#08306b", "#4292d0"), ("#e9882e", "#7f2e04")
ATTENTION = LinearSegmentedColormap.from_list("attention", ["white", *BROWNS])
SIGNED = LinearSegmentedColormap.from_list("signed", [*BLUES, "white", *BROWNS])
MAGNITUDE = LinearSegmentedColormap.from_list("magnitude", ["white", *reversed(BLUES)])
for colours in (ATTENTION, SIGNED, MAGNITUDE):
    mpl.colormaps.register(colours, force=True)


def use_style() -> None:
    """Draw the pictures that follow in the style of the tutorials: these colours, large type, and SVG in a notebook."""
    mpl.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=[BLUE, RED, GREEN, PURPLE, ORANGE, SKY, GREY]),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "figure.constrained_layout.use": True,
            "figure.figsize": (6, 3.2),
            "font.size": 11,
            "image.cmap": "magnitude",
            "image.interpolation": "nearest",
            "legend.frameon": False,
            "svg.fonttype": "none",
            "svg.hashsalt": "minitransformer",
        }
    )
    if "IPython" in sys.modules:
        import_module("matplotlib_inline.backend_inline").set_matplotlib_formats(
            "svg",
            metadata={"Date": None},  # so that equal pictures are equal files
        )
