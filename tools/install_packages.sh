#!/bin/sh
# Install the Debian packages that building and running needs, and those that are named besides;
# quick when they are there.
set -eu

packages="varnish haproxy libvarnishapi-dev libclang-dev gcc libc6-dev pkg-config python3 curl $*"

missing=""
for package in $packages; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
# An interpreter that isn't Debian's brings its own venv; Debian's needs a package for it.
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
# A machine may forbid services to start by themselves; varnishd and HAProxy are started by the chaperone only.
# shellcheck disable=SC2086  # the list is meant to be split
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
