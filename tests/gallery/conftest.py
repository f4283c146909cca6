"""The entries are plain modules beside the test: let it import them by name, wherever pytest is started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
