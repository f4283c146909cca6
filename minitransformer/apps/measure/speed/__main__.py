"""``python -m minitransformer.apps.measure.speed``: a process that does steps on request; see ``program.py``."""

import sys

from minitransformer.apps.measure.speed.program import main
from minitransformer.arrays import keep_freed_memory

keep_freed_memory()
sys.exit(main(sys.argv[1:]))
