"""Write numbers as German says them, and as a proposed reform would, into the current directory.

"Adaptation" in measurements.md trains a model on ``old``, and then on ``new``; ``general`` is held out.
"""

import random
from pathlib import Path

from num2words import num2words


def old(n: int) -> str:
    return str(num2words(n, lang="de"))


def new(n: int) -> str:
    if n >= 1000:
        rest = new(n % 1000) if n % 1000 else ""
        return ("ein" if n < 2000 else new(n // 1000)) + "tausend" + rest
    hundreds = ("ein" if n < 200 else old(n // 100)) + "hundert" if n >= 100 else ""
    n %= 100
    whole = n < 21 or n % 10 == 0
    return hundreds + (old(n) if whole else old(n - n % 10) + old(n % 10)) * (n > 0)


if __name__ == "__main__":
    numbers = random.Random(0).sample(range(1, 1_000_000), 22_200)
    for name, part, german in (
        ("new", numbers[:2000], new),
        ("general", numbers[2000:2200], old),
        ("old", numbers[2200:], old),
    ):
        Path(f"{name}.en").write_text("".join(f"{num2words(n)}\n" for n in part), encoding="utf-8")
        Path(f"{name}.de").write_text("".join(f"{german(n)}\n" for n in part), encoding="utf-8")
