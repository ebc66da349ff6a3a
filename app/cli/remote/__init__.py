"""Commands that ask a service over HTTP, through the Python client."""
