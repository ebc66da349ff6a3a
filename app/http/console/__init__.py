"""The console: pages for people, rendered here. What they change, they change through /v1."""
