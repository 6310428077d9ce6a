"""``python benchmarks/host_name.py NAME COMMAND [ARGUMENT ...]``: run a command on a host of this
name. The name is that of a UTS namespace; who is not root needs a user namespace for that."""

import ctypes
import os
import socket
import sys
from pathlib import Path
from typing import Final

_NEW_UTS: Final = 0x04000000
_NEW_USER: Final = 0x10000000


def main() -> None:
    """Become the command."""
    name, *command = sys.argv[1:]
    try:
        enter_own_host(name)
    except OSError as error:
        raise SystemExit(f"a host name of its own is not allowed here: {error}") from None
    os.execvp(command[0], command)  # noqa: S606 - the command keeps this process's number


def enter_own_host(name: str) -> None:
    """Give this process a host name of its own.

    Raises:
        OSError: the kernel does not allow it."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_UTS | (_NEW_USER if uid else 0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if uid:
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"0 {uid} 1")
        (own / "gid_map").write_text(f"0 {gid} 1")
    socket.sethostname(name)


if __name__ == "__main__":
    main()
