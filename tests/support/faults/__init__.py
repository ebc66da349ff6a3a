"""Faults planted on purpose, in tools and in the engine: `perdure verify` must find each."""
