"""What may leave a tool: plain JSON without secrets, of a size that a conversation can bear."""

from app.domain.canonical import Json, readable, scrub
from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.errors import UnencodableResult

LARGEST_BYTES = 256 * 1024


def fit(tool: Tool, ctx: ToolContext, value: object) -> tuple[Json, bool]:
    """The result as it is stored; True where it is lost, and what is stored says why."""
    try:
        result = scrub(ctx.redact_json(tool.encode_result(value)))
    except UnencodableResult as error:
        detail = scrub(ctx.redact(str(error)))
        return {"error": "result_unencodable", "detail": detail}, True
    fitting = fits(result)
    return fitting, fitting is not result


def fits(result: Json) -> Json:
    """The result, or what stands for one that is too large."""
    size = size_of(result)
    return result if size <= LARGEST_BYTES else {"error": "result_too_large", "bytes": size}


def size_of(result: Json) -> int:
    return len(readable(result).encode())
