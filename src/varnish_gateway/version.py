"""The version of this program: the checkout's .version, or the installed one."""

from pathlib import Path


def find_version() -> str:
    checkout = Path(__file__).parent.parent.parent / ".version"
    return checkout.read_text().strip() if checkout.is_file() else _installed()


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  slow, and a checkout needs none of it

    try:
        return f"v{version('varnish-gateway')}"
    except PackageNotFoundError:
        return "unknown"


VERSION = find_version()
