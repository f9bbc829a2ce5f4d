"""Kubernetes quantities, as far as a sidecar's resources need them."""

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_FACTORS = {
    "m": Decimal("0.001"), "": Decimal(1), "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
}  # fmt: skip


def amount(quantity: Any) -> Decimal | None:
    """None for what is not a quantity in its usual form."""
    found = _QUANTITY.fullmatch(str(quantity))
    return Decimal(found[1]) * _FACTORS[found[2] or ""] if found else None


def exceeds(request: Any, limit: Any) -> bool:
    """Whether an API server would refuse the pair; what cannot be read is left to it."""
    asked, most = amount(request), amount(limit)
    return asked is not None and most is not None and asked > most
