"""Keys of JSON pointers, by which JSON patches name what they change.

Source: RFC 6901, section 3.
"""

from __future__ import annotations


def pointer_token(key: str) -> str:
    """Return a key of an object as it stands in a pointer: `nvidia.com/gpu` has a slash."""
    return key.replace("~", "~0").replace("/", "~1")


def pointer_keys(pointer: str) -> list[str]:
    """Return the keys and indices of a pointer that begins with a slash."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
