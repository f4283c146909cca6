"""Proof of gradients: a checker for any function of tensors, and what it takes to test one's own operations.

``gradcheck`` holds a backward pass against finite differences; ``prove`` also against the composed form.
"""

from minitransformer.testing.gradcheck import GradientReport, gradcheck

__all__ = ["GradientReport", "gradcheck"]
