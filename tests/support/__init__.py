"""The outside world of the tests: a model, a payment provider, documents, gates, real processes."""
