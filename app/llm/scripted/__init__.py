"""A model that follows a script, on the Anthropic Messages wire and as strict as the real one.

`perdure dev` and `perdure demo` use it without a key; tests drive every stop reason and failure.
`script` says what a step can be, `Scripted` is the ASGI app.
"""

from app.llm.scripted.scene import Call, Scene
from app.llm.scripted.script import Script, follow
from app.llm.scripted.server import RequestRecord, Scripted, create_app

__all__ = ["Call", "RequestRecord", "Scene", "Script", "Scripted", "create_app", "follow"]
