"""What can be wrong with a tool, an agent or a value that passes through them."""

from app.errors import ConfigurationError


class DefinitionError(ConfigurationError):
    """Something a user declared cannot be served; `source` is its file and line."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem


class ToolDefinitionError(DefinitionError):
    """A tool that is declared wrongly."""


class AgentDefinitionError(DefinitionError):
    """An agent that is declared wrongly."""


class AgentLoadError(DefinitionError):
    """A module of agents that cannot be loaded."""


class Flaw(Exception):
    """What is wrong with a declaration, before it is known where the declaration stands."""


class InvalidArguments(Exception):
    """The arguments do not fit the tool's signature; the text is fit for the model."""


class UnencodableResult(Exception):
    """The tool ran, but its result has no JSON form or does not fit its model."""


class ToolAborted(Exception):
    """The tool raised what would end the worker, not the call: SystemExit or a cancellation."""


class ToolHookError(Exception):
    """A hook gave back something that its contract does not allow."""


class MissingSecret(LookupError):
    """A secret that this worker does not have."""
