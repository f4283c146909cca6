"""Pictures of attention: every head of every layer on one page, or one map large enough to read.

A map shows the weights of equation (1), softmax(Q K^T / sqrt(d_k)): a row for each query, a column for each
key. The weights of a row add up to 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from minitransformer.plots.grid import maps_figure
from minitransformer.plots.saving import save
from minitransformer.plots.single import crossing_figure


def attention_maps(
    maps: Mapping[str, Sequence[NDArray[Any]]],
    source: Sequence[str],
    target: Sequence[str],
    path: Path | str,
    title: str = "",
    *,
    target_input: Sequence[str] | None = None,
) -> None:
    """Draw the attention of every layer and head as a grid of small maps.

    Cross-attention comes first, then the self-attention of the encoder, then that of the decoder. A row
    of the grid is a layer, a column is a head. Tokens are named at the left of a row and below the last row
    of a kind.

    Parameters
    ----------
    maps : mapping of str to sequence of NDArray
        Any of "cross", "encoder" and "decoder", each with an array of shape (H, Tq, Tk) for each layer.
    source : sequence of str
        The source tokens as the encoder read them.
    target : sequence of str
        The target tokens, one for each position of the decoder: the token that it wrote there, say.
    path : Path or str
        The file to write.
    title : str, default: ""
        A heading, perhaps the sentence.
    target_input : sequence of str, optional
        The tokens that the decoder read, "<start>" first. They name the keys (columns) of its self-attention,
        which are its inputs and so lie one place behind the tokens written. Default: `target`.

    Raises
    ------
    ValueError
        If `maps` is empty or has another key, a shape does not fit the tokens, or a weight lies outside 0..1.
    """
    save(maps_figure(maps, source, target, title, target_input=target_input), path, dpi=160)


def crossing(
    weights: NDArray[Any], source: Sequence[str], target: Sequence[str], path: Path | str, title: str = ""
) -> None:
    """Draw one map between a source and a target sentence, large enough to read the order of words from.

    The strongest source token of each target token bears a dot, unless several are equally strong. Where
    the dots leave the diagonal, the two languages order their words differently.

    Parameters
    ----------
    weights : NDArray
        Attention weights of shape (Tq, Tk), for one head or the mean of several.
    source : sequence of str
        The Tk source tokens, drawn along the top.
    target : sequence of str
        The Tq target tokens, drawn down the side.
    path : Path or str
        The file to write.
    title : str, default: ""
        A heading.

    Raises
    ------
    ValueError
        If the shape does not fit the tokens, or a weight lies outside 0..1.
    """
    save(crossing_figure(weights, source, target, title), path, dpi=200)
