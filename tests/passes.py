"""The forward and backward pass of each operation for NumPy arrays; the library in use does the work.

As an operation does, this moves floating-point inputs to the device and passes on the rest. On NumPy nothing is moved.
"""

import minitransformer as mt
from minitransformer.arrays import asarray, operand, to_numpy, xp


class Passes:
    """An operation whose ``forward`` and ``backward`` take and return NumPy arrays."""

    def __init__(self, operation):
        self.operation = operation

    def __call__(self, *inputs, **options):
        return self.operation(*inputs, **options)

    def __getattr__(self, name):
        return getattr(self.operation, name)

    def forward(self, *inputs, out=None, **options):
        moved = [operand(x) for x in inputs]
        if out is None:
            value, saved = self.operation.forward(*moved, **options)
        else:
            device = asarray(out)
            value, saved = self.operation.forward(*moved, out=device, **options)
            value = _back(value, device, out)
        return _host(value), saved

    def backward(self, saved, d_output, out=None):
        if out is None:
            gradients = self.operation.backward(saved, operand(d_output))
        else:
            device = tuple(None if o is None else asarray(o) for o in out)
            gradients = self.operation.backward(saved, operand(d_output), out=device)
            gradients = tuple(_back(*places) for places in zip(gradients, device, out, strict=True))
        return tuple(_host(gradient) for gradient in gradients)


def _host(value):
    return to_numpy(value) if isinstance(value, xp.ndarray) else value


def _back(value, device, host):
    """Return the NumPy array in place of the device's array, if the value was written there."""
    if value is not device or device is host:
        return value
    host[...] = to_numpy(device)
    return host


def __getattr__(name):
    """Return the passes of an operation, as in ``from passes import softmax``."""
    if name not in mt.ops.registry:
        raise AttributeError(name)
    return Passes(mt.ops.registry[name])
