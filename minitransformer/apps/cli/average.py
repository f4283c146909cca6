"""Average the last checkpoints of a run.

The mean of their weights (section 6.1 of the paper) is then used for translating, unless --weights says otherwise.
"""

from __future__ import annotations

import argparse

from minitransformer.console import counted
from minitransformer.runs import RunFolder
from minitransformer.training import average


def run(args: argparse.Namespace) -> int:
    """Write the mean, and print its steps and path."""
    path, steps = average(RunFolder(args.run), args.last)
    which = f"{'step' if len(steps) == 1 else 'steps'} {', '.join(f'{step:,}' for step in steps)}"
    print(f"{path} is the mean of {counted(len(steps), 'checkpoints')}: {which}")
    return 0
