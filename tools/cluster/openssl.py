"""Keys and certificates made by the openssl command."""

import subprocess
from pathlib import Path


def openssl(directory: Path, *arguments: str) -> None:
    """Run openssl in a directory."""
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def create_key(directory: Path, file: str) -> None:
    openssl(directory, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file)


def create_self_signed(directory: Path, *options: str) -> None:
    """Create key.pem and cert.pem, with these further options of ``openssl req``."""
    create_key(directory, "key.pem")
    openssl(directory, "req", "-x509", "-new", "-key", "key.pem", "-out", "cert.pem", "-subj", "/CN=test", *options)
