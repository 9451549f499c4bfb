#!/bin/sh
# Install the Debian packages that building and running need, and those named as arguments.
# Quick if all are installed.
set -eu

packages="varnish haproxy libvarnishapi-dev libclang-dev gcc libc6-dev pkg-config python3 curl $*"

missing=""
for package in $packages; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
# Debian's Python needs a package for venv; other interpreters include it.
"${PYTHON:-python3}" -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "please install as root: apt-get install$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# It does not matter whether the packages' services start: the chaperone runs its own varnishd and HAProxy.
# shellcheck disable=SC2086  # the list is meant to be split
$as_root apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing >/dev/null
