import pytest

from app.llm.anthropic import AnthropicModel


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://me:secret@gateway.example/anthropic?key=secret", "gateway.example"),
        ("http://127.0.0.1:9000", "127.0.0.1:9000"),
    ],
)
async def test_a_provider_is_named_by_its_host_alone(url: str, name: str) -> None:
    model = AnthropicModel(api_key="key", base_url=url)

    assert model.provider == name
    await model.close()
