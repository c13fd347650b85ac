from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples in every run: a law that fails here fails everywhere.
settings.register_profile(
    "surefair",
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("surefair")
