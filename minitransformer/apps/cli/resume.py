"""Resume an interrupted training run.

After Ctrl-C, a crash or a power cut, it ends with the same weights, bit for bit, as an uninterrupted run.
"""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import note
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.progress import train
from minitransformer.arrays import backend
from minitransformer.runs import RunFolder, lock_folder
from minitransformer.training import has_ended, resume


@with_parts_of_run(needed=True)
def run(args: argparse.Namespace) -> int:
    """Continue training from the newest intact checkpoint."""
    backend()
    folder = RunFolder(args.run)
    args.group.broadcast(folder.configuration)  # refuses a folder that is not a run
    if args.group.broadcast(lambda: has_ended(folder, note)):
        print(f"the run in {folder.path} is finished; there is nothing to resume")
        return 0
    with lock_folder(folder.path, args.group):
        return train(resume(folder, note, args.group, fork=True), folder, "resume")
