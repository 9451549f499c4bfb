"""Resource versions: which of two is the newer one."""


def is_newer(version: str, known: str) -> bool:
    """Whether an object was stored later; resource versions of one kind can be compared."""
    return not (version.isdigit() and known.isdigit()) or int(version) > int(known)
