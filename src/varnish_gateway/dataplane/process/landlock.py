"""Run a program that may only reach some files: Linux Landlock.

In:   a Fence: the paths that a program and all its children may read, and those that they may also change.
Out:  ``command`` returns a command line that raises the fence and then becomes the program, under the same pid.
      ``missing`` says why this machine has no such fence.

A fence can't be lowered again, not even by root. Inside it, other files are "permission denied", and so are
memory, environment and descriptors of processes outside it. A process outside it gets no signal from inside.

The command runs this file as a script, so it imports the standard library only. Raising the fence between
fork and exec in our own process isn't safe: it has threads.
"""

import ctypes
import json
import os
import stat
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38  # of prctl; Landlock asks for it
_SIGNALS = 1 << 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_SOCKET = 1 << 5, 1 << 9
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""How many rights each version of Landlock knows; versions between two know those of the lower one."""
_VERSION_WITH_SCOPES = 6


class Fence(NamedTuple):
    """Paths of files and directories; a directory stands for everything below. Missing paths are left out.

    In ``sockets`` the program may create and remove sockets, and read nothing.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def command(fence: Fence, argv: Sequence[str]) -> list[str]:
    """Return a command line that raises the fence and becomes the program."""
    return [sys.executable, "-I", "-S", __file__, json.dumps(fence), *argv]


def missing() -> str | None:
    """Return why a fence can't be raised here, None if it can. A thread that ends at once tries it."""
    found: list[str | None] = []
    trial = threading.Thread(target=lambda: found.append(_try()))
    trial.start()
    trial.join()
    return found[0]


def _try() -> str | None:
    try:
        _raise(Fence())
    except OSError as error:
        return f"the kernel offers no Landlock ({error.strerror})"
    return None


def _raise(fence: Fence) -> None:
    """Restrict the calling thread and all processes that it starts."""
    version = _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    known = (1 << _RIGHTS[max(each for each in _RIGHTS if each <= version)]) - 1
    ruleset = _Ruleset(files=known, scopes=_SIGNALS)
    size = ctypes.sizeof(ruleset) if version >= _VERSION_WITH_SCOPES else ctypes.sizeof(ctypes.c_uint64)
    rules = _call(_CREATE_RULESET, ctypes.byref(ruleset), size, 0)
    try:
        _allow(rules, fence.readable, known & _READ)
        _allow(rules, fence.writable, known)
        _allow(rules, fence.sockets, _REMOVE_FILE | _MAKE_SOCKET)
        if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            raise _error()
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what doesn't exist can't be read
        try:
            allowed = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else rights & _OF_FILES
            _call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(_Beneath(allowed, descriptor)), 0)
        finally:
            os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    result: int = _libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise _error()
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _main() -> None:
    """Raise the fence of the first argument, then become the program of the others."""
    _, fence, *argv = sys.argv
    try:
        _raise(Fence(*map(tuple, json.loads(fence))))
        os.execvp(argv[0], argv)  # noqa: S606 - the program is what the fence is for
    except OSError as error:
        sys.exit(f"Error: can't start {argv[0]} inside its fence: {error.strerror}")


if __name__ == "__main__":
    _main()
