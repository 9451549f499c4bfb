"""Options that several commands have."""

import argparse

from varnish_gateway.runtime.environment import Address

Commands = argparse._SubParsersAction  # noqa: SLF001  argparse has no public name for what add_subparsers returns
LOG_LEVELS = ("debug", "info", "warning", "error")


def add_paths(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", nargs="+", metavar="PATH", help="a manifest, or a directory with manifests")


def add_log_format(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument("--log-format", choices=("text", "json"), default=default, help=f"default: {default}")


def add_log_level(command: argparse.ArgumentParser) -> None:
    command.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="default: info")


def address(text: str) -> Address:
    """Return the address that an option names."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form host:port or :port")
    return Address(host.strip("[]"), int(port))


def header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header that an option gives."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 'name: value'")
    return name.strip().lower(), value.strip()
