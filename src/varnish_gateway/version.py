"""Which version this is: the checkout's .version, or what was installed."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def _version() -> str:
    checkout = Path(__file__).parent.parent.parent / ".version"
    if checkout.is_file():
        return checkout.read_text().strip()
    try:
        return f"v{version('varnish-gateway')}"
    except PackageNotFoundError:
        return "unknown"


VERSION = _version()
