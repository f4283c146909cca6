"""The command ``minitransformer``, also as ``python -m minitransformer``."""

import sys


def run() -> None:
    """Run the command and end with its status; Ctrl-C while modules load gives no traceback."""
    try:
        from minitransformer.apps.cli import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
