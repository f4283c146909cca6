"""Average the last checkpoints of a run.

The mean of their weights (section 6.1 of the paper) is then used for translating, unless --weights says otherwise.
"""

from __future__ import annotations

import argparse

from minitransformer.training import RunFolder, average


def run(args: argparse.Namespace) -> int:
    """Write the mean, and print its steps and path."""
    path, steps = average(RunFolder(args.run), args.last)
    print(f"the mean of {len(steps)} checkpoints, steps {', '.join(f'{step:,}' for step in steps)}, is {path}")
    return 0
