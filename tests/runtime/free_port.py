"""A free port. As a program: prints one."""
import pathlib
import random
import socket

RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(address="127.0.0.1"):
    """A port outside the system's range for connections. Otherwise a connection to a port without a listener
    might get that port for its own end, and connect to itself."""
    low, high = map(int, RANGE.read_text().split())
    ports = [*range(1024, low), *range(high + 1, 65536)]
    while ports:
        port = random.choice(ports)
        try:
            socket.create_server((address, port)).close()
            return port
        except OSError:
            ports.remove(port)
    raise SystemExit("no port is free")


if __name__ == "__main__":
    print(free_port())
