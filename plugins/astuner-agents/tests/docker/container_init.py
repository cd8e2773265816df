"""Begins a container of the stand-in: mounts this machine's programs into the root directory, and becomes a program there."""

import fcntl
import os
import socket
import struct
import subprocess
import sys

SHOWN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev")
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def main() -> None:
    """Follow the arguments: the root directory, and the program."""
    root, *command = sys.argv[1:]
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    # So that what is mounted here is on a mount of its own, which a root directory has to be.
    for path in (*SHOWN, sys.base_prefix):
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.isdir(path) and not os.path.isdir(root + path):
            os.makedirs(root + path)
            subprocess.run(["mount", "--rbind", path, root + path], check=True)
            if path != "/dev":
                subprocess.run(["mount", "-o", "remount,bind,ro", root + path], check=True)
    os.mkdir(f"{root}/proc")
    subprocess.run(["mount", "-t", "proc", "proc", f"{root}/proc"], check=True)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    os.chroot(root)
    os.chdir("/")
    os.execvp(command[0], command)


main()
