"""``python -m minitransformer.cli``."""

import sys

from minitransformer.cli import main

sys.exit(main())
