"""JSON pointers to keys that may hold any character, such as the slash in an annotation's name."""


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
