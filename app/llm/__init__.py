"""The model side: the port, the Anthropic client behind it, prices, and a scripted model."""
