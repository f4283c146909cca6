"""``python -m minitransformer.apps.bench``: a process that does training steps on request; see ``program.py``."""

import sys

from minitransformer.apps.bench.program import main
from minitransformer.arrays import keep_freed_memory

keep_freed_memory()
sys.exit(main(sys.argv[1:]))
