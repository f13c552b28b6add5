"""Keys as JSON pointers have them."""

from __future__ import annotations

import pytest

from shared_api.json_pointer import pointer_keys, pointer_token


@pytest.mark.parametrize(
    ("key", "token"),
    [("cpu", "cpu"), ("nvidia.com/gpu", "nvidia.com~1gpu"), ("a~1b", "a~01b"), ("", "")],
)
def test_a_key_is_found_again(key: str, token: str) -> None:
    assert pointer_token(key) == token
    assert pointer_keys(f"/spec/0/{token}") == ["spec", "0", key]


def test_the_whole_document_has_no_keys() -> None:
    assert pointer_keys("") == []
