"""Why something is left alone."""

from enum import StrEnum


class Reason(StrEnum):
    """The words of a summary, after their number."""

    NO_MANIFEST = "without a manifest"
    TEMPLATE = "templates"
    PATCH = "patches"
    TEST = "expectations of kuttl or chainsaw"
    ENCRYPTED = "encrypted by SOPS"
    SEALED = "sealed or external secrets"
    LINK = "links"
    SUFFIX = "with a suffix in capitals"
    EXCLUDED = "excluded"
