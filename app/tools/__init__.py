"""What a user writes against: tools, agents, contexts."""
