"""The colours of the pictures, and how the layers of Table 1 are drawn."""

# The colours of Okabe and Ito, which people who are colour-blind can tell apart.
BLUE, ORANGE, PURPLE, SKY, GREEN, YELLOW, RED, GREY = (
    "#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#009E73", "#F0E442", "#D55E00", "#B0B0B0",
)  # fmt: skip
FAINT = "0.35"
STYLES = (
    (BLUE, "o", "-"), (ORANGE, "s", (0, (6, 2))), (PURPLE, "^", (0, (4, 1.5, 1, 1.5))), (GREEN, "D", (0, (2, 1.5))),
)  # fmt: skip
"""Colour, marker and line of each layer, in the order of the table."""
