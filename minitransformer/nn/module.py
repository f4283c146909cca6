"""The parts of a model: parameters, and modules that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, is_whole, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.console import mismatch


class Parameter(Tensor):
    """A trainable tensor.

    Parameters
    ----------
    data : array
        The initial values; floating-point numbers.
    """

    __slots__ = ()

    def __init__(self, data: Any) -> None:
        super().__init__(data, requires_grad=True)


def xavier(rng: np.random.Generator, n_in: int, n_out: int) -> Array:
    """Return a random matrix (n_in, n_out), a compromise between the scales of values and of gradients.

    For x of variance 1, x W has variance 2 n_in / (n_in + n_out), and the gradient of x shrinks or grows by
    2 n_out / (n_in + n_out): both are 1 only if n_in = n_out. ReLU and the mean over keys lower the variance further.
    Uniform between ±sqrt(6 / (n_in + n_out)), drawn on the host, so that every array library starts with the same
    weights. Source: Understanding the difficulty of training deep feedforward neural networks (Glorot and Bengio,
    2010).
    """
    limit = (6 / (n_in + n_out)) ** 0.5
    return rng.uniform(-limit, limit, (n_in, n_out))


def normal(rng: np.random.Generator, n: int, d_model: int) -> Array:
    """Return random rows (n, d_model) of variance 1 / d_model, drawn on the host."""
    # After scaling by sqrt(d_model), embeddings have variance 1, on the scale of the sinusoids.
    return rng.normal(0, d_model**-0.5, (n, d_model))


def weights(values: Array, dtype: str) -> Parameter:
    """Return a parameter with values that were drawn on the host."""
    return Parameter(asarray(values.astype(dtype, copy=False)))


class ZeroGenerator:
    """Takes the place of the generator of initial weights in a model whose weights are loaded, to save time and memory.

    It draws zeros that cannot be written to, until ``load_state_dict(state, copy=False)`` replaces them.
    """

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Array:
        """Return zeros."""
        return np.broadcast_to(np.float32(0), shape)  # without memory for each

    normal = uniform


def check_sizes(owner: str, **sizes: Any) -> None:
    """Raise a ValueError unless all sizes are whole numbers of at least 1."""
    for name, size in sizes.items():
        if not is_whole(size) or size < 1:
            raise ValueError(f"{owner}: {name} must be a whole number of at least 1, found {size!r}")


class Module:
    """A part of a model, with parameters and parts of its own.

    Parameters, modules and lists of modules are registered when they are assigned to attributes. A parameter's name is
    its path: ``encoder.layers.0.feed_forward.w1``. A shared parameter, such as a shared embedding, has the name of its
    first path.
    """

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield each parameter once, with its name."""
        seen: set[int] = set()
        for name, parameter in self._walk(""):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def _walk(self, prefix: str) -> Iterator[tuple[str, Parameter]]:
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield prefix + name, value
            elif isinstance(value, Module):
                yield from value._walk(f"{prefix}{name}.")
            elif isinstance(value, list):
                for i, part in enumerate(value):
                    if isinstance(part, Module):
                        yield from part._walk(f"{prefix}{name}.{i}.")

    def parts(self) -> Iterator[Module]:
        """Yield the module and every part of it."""
        yield self
        for value in vars(self).values():
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, Module):
                    yield from part.parts()

    def parameters(self) -> list[Parameter]:
        """Return each parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def trained_parameters(self) -> list[Parameter]:
        """Return each parameter that is trained, which has ``requires_grad``."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of every parameter's values, as NumPy arrays by name."""
        return {name: np.array(to_numpy(parameter.data), order="C") for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any], copy: bool = True) -> None:
        """Replace every parameter's values, or none if one of them does not fit.

        Parameters
        ----------
        state : mapping of str to array
            Values by name, as ``state_dict`` returns them.
        copy : bool
            Whether the values are copied. If not, the parameters use the arrays of the state, where those have their
            type.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or a shape differs.
        """
        parameters = dict(self.named_parameters())
        missing, unknown = parameters.keys() - state.keys(), state.keys() - parameters.keys()
        if missing or unknown:
            raise ValueError(f"load_state_dict: these are not the weights of this model; {mismatch(missing, unknown)}")
        values = {}
        for name, parameter in parameters.items():
            value = (
                state[name] if isinstance(getattr(state[name], "dtype", None), np.dtype) else np.asarray(state[name])
            )
            if value.shape != parameter.shape:
                raise ValueError(
                    f"load_state_dict: {name} has shape {parameter.shape} in the model, {value.shape} in the state"
                )
            if value.dtype.kind not in "fiu":
                raise ValueError(f"load_state_dict: {name} holds {value.dtype} in the state, expected numbers")
            values[name] = asarray(value)
        for name, parameter in parameters.items():
            if copy:
                parameter.data[...] = values[name]
            else:
                parameter.data = values[name].astype(parameter.dtype, copy=False)
