"""``python -m minitransformer.bench``: a process that does training steps when it is told to; see ``program.py``."""

import sys

from minitransformer.bench.program import main

sys.exit(main(sys.argv[1:]))
