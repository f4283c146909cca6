"""Experiments on the paper."""
