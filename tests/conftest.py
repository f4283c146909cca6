"""What holds for all tests."""

import os

# Small arrays gain nothing from threads, and many test processes would fight over them. This must come before numpy.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

settings.register_profile(
    "fast", max_examples=25, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=400, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# A mutant has to fail, not to be understood: no time is spent on a smaller example.
settings.register_profile(
    "mutation",
    max_examples=25,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
# pytest's own option --hypothesis-profile comes after this and wins.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
