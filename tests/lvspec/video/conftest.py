"""Hypothesis here checks results, not speed: the cores are shared."""

from hypothesis import settings

settings.register_profile("shared_cores", deadline=None)
settings.load_profile("shared_cores")
