"""Pure rules and values: no clock, no I/O."""
