import re
from pathlib import Path

from app.settings import PREFIX, Settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def read_sections() -> dict[str, str]:
    parts = re.split(r"^## (PERDURE_\w+)$", DOCUMENT.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_setting_has_a_heading_and_every_heading_a_setting() -> None:
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}

    assert read_sections().keys() == settings


def test_every_section_states_the_default() -> None:
    sections = read_sections()

    for name, field in Settings.model_fields.items():
        text = sections[f"{PREFIX}{name.upper()}"]
        if field.is_required() or field.default is None:
            assert "No default." in text, name
        else:
            assert f"Default: `{write(field.default)}`" in text, name


def write(value: object) -> str:
    match value:
        case bool():
            return str(int(value))
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
