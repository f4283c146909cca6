"""What happens when processes are killed, disks fail, folders come from strangers, and values make no sense.

The suite tries a small share of each, drawn with a fixed seed. All of it, in some minutes:

    MINITRANSFORMER_ROBUSTNESS=all python -m pytest tests/robustness tests/runs/test_strict_readers.py
"""

import os

ALL = os.environ.get("MINITRANSFORMER_ROBUSTNESS") == "all"
"""Whether all is to be tried."""
