"""The journal's format: ASCII JSON. Pickle is refused, since reading it runs whatever it says."""

import json
from typing import Any

from dbos import Serializer
from dbos._serialization import DefaultSerializer

from app.domain.canonical import encode


class JournalSerializer(Serializer):
    """Inputs and step outputs are JSON already; an error is kept as its name and text."""

    def serialize(self, data: Any) -> str:  # noqa: ANN401 - DBOS's signature
        if isinstance(data, BaseException):
            return encode({"error": type(data).__name__, "detail": str(data)})
        return encode(data)

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401
        value = json.loads(serialized_data)
        if isinstance(value, dict) and value.keys() == {"error", "detail"}:
            return RuntimeError(f"{value['error']}: {value['detail']}")
        return value

    def name(self) -> str:
        return "perdure_json"


def refuse_pickle() -> None:
    """DBOS would unpickle any row that says so, whatever serializer is configured."""

    def refuse(*_: object) -> None:
        raise ValueError("a journal row claims to be pickled; Perdure never writes those")

    setattr(DefaultSerializer, "deserialize", refuse)  # noqa: B010 - typed code may not reassign it
