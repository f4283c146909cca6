"""The options of the model, which every part of it receives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from minitransformer.ops.rotary import Rotation
from minitransformer.options import OptionError, Options, option

QUERIES = 256
"""The number of queries that attention computes at a time without a gradient, where blocks cost no time."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """The options of a Transformer; the defaults are the paper's base model (Table 3).

    Raises
    ------
    OptionError
        If a value is out of its range, or D is not divisible by H and d_k is not given.
    """

    owner: ClassVar[str] = "Transformer"

    d_model: int = option(512, "D, the number of features of each position", at_least=1, common=True)
    n_heads: int = option(8, "H, the number of attention heads", at_least=1, common=True)
    n_layers: int = option(6, "N, the number of layers in the encoder and in the decoder", at_least=1, common=True)
    n_decoder_layers: int | None = option(
        None, "the number of layers in the decoder (default: N, as in the encoder)", at_least=1, added=True
    )
    d_ff: int = option(2048, "F, the number of features inside the feed-forward networks", at_least=1, common=True)
    d_k: int | None = option(None, "Dk, the size of a head's queries and keys (default: D / H)", at_least=1)
    d_v: int | None = option(None, "Dv, the size of a head's values (default: D / H)", at_least=1)
    norm: str = option(
        "post", "layer norm after each residual connection, as in the paper (post), or before each sub-layer (pre), "
        "or RMSNorm before each sub-layer (rms)", choices=("post", "pre", "rms"),
    )  # fmt: skip
    positions: str = option(
        "sinusoidal", "positions: added to the embeddings, as in section 3.5 (sinusoidal, learned), or in "
        "self-attention, as rotations of queries and keys (rotary) or as a bias of scores (alibi)",
        choices=("sinusoidal", "learned", "rotary", "alibi"),
    )  # fmt: skip
    attention_block: int | None = option(
        None,
        "queries that attention computes at a time; fewer save memory for long sentences and take a little longer, "
        f"the number affects rounding (default: all in training, {QUERIES} otherwise)",
        at_least=1,
        editable=True,
    )
    recompute: bool = option(
        False, "keep only each layer's input and recompute the rest in the backward pass: less memory, more time, "
        "the same results", editable=True,
    )  # fmt: skip
    n_kv_heads: int | None = option(
        None, "heads of keys and values, each shared by the same number of the H heads of queries (default: H)",
        at_least=1, added=True,
    )  # fmt: skip
    dropout: float = option(0.1, "probability of dropping an entry, section 5.4", at_least=0, below=1, common=True)
    share_embeddings: bool | str = option(
        True,
        '"all": one table is both embeddings and the last linear layer (section 3.4); "target": the target embedding '
        'and the last linear layer; "inputs": both embeddings; False: nothing is shared; True: "all" for a single '
        'vocabulary, "target" for two',
        choices=(True, "all", "target", "inputs", False), flag=False, added=True,
    )  # fmt: skip
    scale_embeddings: bool = option(
        True, "whether embeddings are multiplied by sqrt(D), section 3.4", flag=False, added=True
    )
    attention_bias: bool | str = option(
        False, 'whether attention\'s projections have biases (True), or those of queries, keys and values ("inputs"); '
        "the paper's have none", choices=(False, True, "inputs"), flag=False, added=True,
    )  # fmt: skip
    feed_forward_bias: bool = option(
        True, "whether the layers of the feed-forward networks have biases; the paper's do", flag=False, added=True
    )
    output_bias: bool = option(
        False, "whether the last linear layer has a bias; the paper's has none", flag=False, added=True
    )
    activation: str = option(
        "relu",
        "function between the two layers of the feed-forward networks; gelu_tanh and quick_gelu approximate gelu; "
        "swiglu has a gate for each of the F features",
        choices=("relu", "silu", "gelu", "gelu_tanh", "quick_gelu", "swiglu"), added=True,
    )  # fmt: skip
    final_norm: bool | None = option(
        None, "whether a layer norm follows each stack (default: with pre-norm)", flag=False, added=True
    )
    layer_norm_eps: float = option(
        1e-5, "ε of layer norm, added to the variance (or the mean square)", above=0, flag=False, added=True
    )
    position_layout: str = option(
        "interleaved", "sinusoidal positions: sines and cosines alternate, or all sines come first; rotary positions: "
        "neighbours are a pair, or features of the first and the second half",
        choices=("interleaved", "halves"), flag=False, added=True,
    )  # fmt: skip
    position_scale: str = option(
        "d_model", "sinusoidal positions: the divisor in the exponent 2i / D, which may be D - 2",
        choices=("d_model", "d_model-2"), flag=False, added=True,
    )  # fmt: skip
    first_position: int = option(
        0, "sinusoidal positions: the number of the first one", at_least=0, flag=False, added=True
    )
    rotary_base: float = option(
        10000.0, "rotary positions: the base of the frequencies", above=1, flag=False, added=True
    )
    rotary_factor: float = option(
        1.0, "rotary positions: how many times more slowly slow pairs turn, for longer texts than those of the first "
        "training", at_least=1, flag=False, added=True,
    )  # fmt: skip
    rotary_low: float = option(
        1.0, "rotary positions: a pair with fewer turns in the first training's length is slow", flag=False, added=True
    )
    rotary_high: float = option(
        4.0, "rotary positions: a pair with more turns in that length is not", flag=False, added=True
    )
    rotary_length: float = option(
        8192.0, "rotary positions: the length of the first training", above=0, flag=False, added=True
    )
    source_end: bool = option(
        True, "whether the end token follows a source sentence, as it follows a target sentence", flag=False, added=True
    )
    start_token: bool = option(
        True, "whether a decoder alone reads the start token before a text that it continues", flag=False, added=True
    )
    max_length: int = option(512, "the longest sentence, for learned positions", at_least=1, flag=False, added=True)
    dtype: str = option(
        "float32", "type of parameters and activations", choices=("float32", "float64"), flag=False, added=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_k is None and self.d_model % self.n_heads:
            raise OptionError(
                f"{self.owner}: d_model {self.d_model} is not divisible by n_heads {self.n_heads}: "
                "choose others, or give d_k (and d_v)",
                "d_model", "n_heads", "d_k", "d_v",
            )  # fmt: skip
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise OptionError(
                f"{self.owner}: n_heads {self.n_heads} is not divisible by n_kv_heads {self.n_kv_heads}",
                "n_heads", "n_kv_heads",
            )  # fmt: skip
        if self.positions == "rotary" and self.key_size % 2:
            raise OptionError(
                f"{self.owner}: rotary positions turn pairs of features: d_k must be even, found {self.key_size}",
                "positions", "d_k", "d_model", "n_heads",
            )  # fmt: skip
        if self.activation == "relu" and not self.feed_forward_bias:
            raise OptionError(
                f"{self.owner}: a feed-forward network with relu has biases: set feed_forward_bias, or choose another "
                "activation",
                "feed_forward_bias", "activation",
            )  # fmt: skip
        if self.rotary_low >= self.rotary_high:
            raise OptionError(
                f"{self.owner}: rotary_low must be below rotary_high, found {self.rotary_low} and {self.rotary_high}",
                "rotary_low", "rotary_high",
            )  # fmt: skip
        if self.position_scale == "d_model-2" and (self.d_model < 4 or self.d_model % 2):
            raise OptionError(
                f"{self.owner}: position_scale 'd_model-2' needs an even d_model of at least 4, found {self.d_model}",
                "position_scale", "d_model",
            )  # fmt: skip

    def __str__(self) -> str:
        other = "" if self.decoder_layers == self.n_layers else f" + {self.decoder_layers}"
        sizes = f"N {self.n_layers}{other}, D {self.d_model}, H {self.n_heads}, F {self.d_ff}"
        norm = "RMSNorm" if self.norm == "rms" else f"{self.norm}-norm"
        return f"{sizes}, dropout {self.dropout}, {norm}"

    @property
    def norm_first(self) -> bool:
        """Whether a sub-layer's input is normalised, and not the sum with its output."""
        return self.norm != "post"

    @property
    def kv_heads(self) -> int:
        """G, the number of heads of keys and values."""
        return self.n_kv_heads or self.n_heads

    @property
    def decoder_layers(self) -> int:
        """The number of layers in the decoder."""
        return self.n_decoder_layers or self.n_layers

    @property
    def has_final_norm(self) -> bool:
        """Whether a layer norm follows each stack."""
        return self.norm_first if self.final_norm is None else self.final_norm

    @property
    def key_size(self) -> int:
        """Dk, the size of a head's queries and keys."""
        return self.d_k or self.d_model // self.n_heads

    @property
    def rotation(self) -> Rotation:
        """How rotary positions turn queries and keys."""
        frequencies = self.rotary_base, self.rotary_factor, self.rotary_low, self.rotary_high, self.rotary_length
        return Rotation(self.position_layout, *frequencies)

    @property
    def value_size(self) -> int:
        """Dv, the size of a head's values."""
        return self.d_v or (self.key_size if self.d_model % self.n_heads else self.d_model // self.n_heads)


def with_model_options(function: F) -> F:
    """Show the options of the model in a function's signature, for ``help``, in place of ``**changes``."""
    signature = inspect.signature(function)
    given = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    named = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(ModelOptions)
    ]
    function.__signature__ = signature.replace(parameters=[*given, *named])  # type: ignore[attr-defined]
    return function
