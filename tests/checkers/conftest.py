"""The corpus is plain modules beside the test; it also reads the gallery: let both be imported by name."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "gallery")]
