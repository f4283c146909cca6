"""Check the gradients.

Compares the hand-written backward pass of one operation, or of all, with automatic differentiation and with finite
differences; or the backward pass of a function of your own, MODULE:FUNCTION, with finite differences. The exit status
is 0 if they agree, else 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from minitransformer import ops
from minitransformer.apps.cli import own_function
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.output_paths import check_writable, writing
from minitransformer.testing import examples, prove, sweep

WORDS = {"operations": ", ".join(ops.registry)}


def run(args: argparse.Namespace) -> int:
    """Print a table of the worst relative errors."""
    name = args.operation
    if ":" in name:
        return own_function.run(args)
    own_function.refuse(args)
    if name != "all" and name not in ops.registry:
        raise UsageError(f"there is no operation {name!r}; the operations are {', '.join(ops.registry)}")
    if hasattr(args, "plot") and name == "all":
        raise UsageError("--plot draws one operation; name it")
    check_writable(args, "plot")
    print("worst relative error, in float64, of the hand-written backward pass against")
    print(f"{'':38}  finite       reference\n{'operation and case':38}  differences  implementation")
    failures = []
    for operation in ops.registry if name == "all" else [name]:
        print(operation)
        for example in examples(ops.registry[operation], args.seed):
            row = f"  {example.case or 'random inputs':36}"
            try:
                proof = prove(ops.registry[operation], example.inputs, seed=args.seed, **example.options)
            except AssertionError as error:
                failures.append(str(error))
                print(f"{row}  FAIL", flush=True)
                continue
            reference = "none" if proof.reference is None else f"{proof.reference.worst_error:.1e}"
            print(f"{row}  {proof.hand_written.worst_error:11.1e}  {reference:>16}  pass", flush=True)
    for failure in failures:
        print(f"\n{failure}")
    if hasattr(args, "plot"):
        _plot(name, args.seed, args.plot)
    return 1 if failures else 0


def _plot(name: str, seed: int, path: Path) -> None:
    """Draw the error of the finite differences over their step size, and say which entry is worst."""
    from minitransformer.apps.plots import step_sizes

    example = examples(ops.registry[name], seed)[-1]
    found = sweep(ops.registry[name], example.inputs, seed=seed, **example.options)
    with writing(path) as file:
        step_sizes(found.steps, {"central": found.central, "extrapolated": found.extrapolated}, file, name)
    print(f"\nleast error {found.extrapolated.min():.1e} at a step of {found.best_step:.1e}")
    print(f"worst entry there: {found.worst_name}{list(found.worst_index)}")
    print(f"the picture is {path}")
