"""``python -m minitransformer.apps.bench``: a process that does training steps on request; see ``program.py``."""

import sys

from minitransformer.apps.bench.program import main

sys.exit(main(sys.argv[1:]))
