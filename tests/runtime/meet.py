"""Ranks that meet at a port, with strangers. Usage: meet.py TEGULA FOLDER strangers|users|namespaces

Strangers of every kind connect while ranks meet: silent ones, ones that send garbage, or a byte now and
then, and more of them than the meeting listens to at once. None of them keeps a rank out or the meeting
open. `users` needs a second user, and `namespaces` needs namespaces of its own.
"""
import fcntl
import os
import pathlib
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

from free_port import free_port

TEGULA, FOLDER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
FOLDER.mkdir(parents=True, exist_ok=True)
SOURCE = """kernel gather(a: sym f32[W][N], c: f32[W, N]) {
    parallel w in W, n in N by 16 { c[w, n] = a[w][n]; }
}
"""
(FOLDER / "gather.teg").write_text(SOURCE)


NEVER_MS = 600_000  # milliseconds; no test reaches this limit

(FOLDER / "turns.teg").write_text("""kernel turns(a: sym f32[W][N], c: f32[W, N], n: i32) {
    let twice = n * 2;
    for i in twice {
        parallel k in N by 16 { a[rank][k] = a[rank][k] + 1; }
        parallel w in W, k in N by 16 { c[w, k] = a[w][k]; }
    }
}
""")
# Numbers of every type that control phases: the text before and after them, then two values.
PHASES = """    parallel k in N by 16 { a[rank][k] = a[rank][k] + 1; }
    parallel w in W, k in N by 16 { c[w, k] = a[w][k]; }
"""
TURNS = f"kernel turns(a: sym f32[W][N], c: f32[W, N], n: i32) {{ for i in n {{\n{PHASES}}} }}\n"
STEERED = {
    "bool": ("kernel k(a: sym f32[W][N], c: f32[W, N], n: bool) { if n {\n" + PHASES + "} }\n", "1", "0"),
    "float": ("kernel k(a: sym f32[W][N], c: f32[W, N], n: f32) { if n > 0.5 {\n" + PHASES + "} }\n", "1", "0.25"),
    "generic": ("kernel k<T: f32 | i32>(a: sym T[W][N], c: T[W, N], n: T) { if n > 1 {\n" + PHASES + "} }\n", "3", "1"),
    "callee": (TURNS + "kernel k(a: sym f32[W][N], c: f32[W, N], n: i32) { let m = n + 1; turns(a, c, m); }\n", "3", "4"),
}
for name, (text, *_) in STEERED.items():
    (FOLDER / f"{name}.teg").write_text(text)
# This number controls nothing, so ranks may pass different values.
(FOLDER / "scaled.teg").write_text(
    "kernel scale(a: sym f32[W][N], s: f32) { parallel k in N by 16 { a[rank][k] = a[rank][k] * s; } }\n"
    "kernel k(a: sym f32[W][N], s: f32) { scale(a, s); }\n")
(FOLDER / "other.teg").write_text(SOURCE.replace("a[w][n];", "a[w][n] + 1;"))


class LeftOut(Exception):
    """This system lacks what a case needs."""


def start(rank, meet, timeout_ms=NEVER_MS, key=None, source="gather.teg", more_args=(), files=None, user=None,
          ranks=2, within=(), **more):
    """`within`: a command that runs the program."""
    environment = dict(os.environ, TG_RANK=str(rank), TG_RANKS=str(ranks), TG_MEET=meet, TG_CACHE="off",
                       TG_TUNE="off", TG_COMM_TIMEOUT_MS=str(timeout_ms), **more)
    environment.pop("TG_RANK_KEY", None)
    if key is not None:
        environment["TG_RANK_KEY"] = key
    command = [*within, TEGULA, "run", FOLDER / source, "--comm", "processes", "-a", f"a=rand({ranks},64)",
               *more_args]
    limit = files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            preexec_fn=limit, user=user)


def ends(process, fails_with=None):
    text = process.communicate()[0]
    if fails_with is None:
        assert process.returncode == 0, text
    else:
        assert process.returncode and fails_with in text, f"{process.returncode}, without {fails_with!r}: {text}"
    return text


class Strangers:
    """Connections during a `with`: `kind` says what the `n` strangers do."""

    def __init__(self, kind, port, n):
        self.kind, self.port, self.n, self.over, self.held = kind, port, n, False, 0
        self.threads = [threading.Thread(target=self.come) for _ in range(n)]

    def connect(self):
        while not self.over:
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                time.sleep(0.002)

    def come(self):
        s = self.connect()
        try:
            while s and not self.over:
                if self.kind == "garbage":
                    s.sendall(os.urandom(4096))
                elif self.kind == "drip":
                    s.send(b"\0")
                time.sleep(0.05)
                self.held += 1
        except OSError:
            pass
        finally:
            if s:
                s.close()

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for t in self.threads:
            t.join()


def meets_among_strangers():
    for kind, n in (("silent", 200), ("drip", 20), ("garbage", 10)):
        port = free_port()
        meet = f"127.0.0.1:{port}"
        first = start(0, meet)
        with Strangers(kind, port, n) as strangers:
            while not strangers.held:
                assert first.poll() is None, first.communicate()[0]
                time.sleep(0.01)
            second = start(1, meet)
            ends(second)
            ends(first)


def meets_with_few_files():
    """More strangers than rank 0 may have open files: the oldest connections are closed."""
    port = free_port()
    first = start(0, f"127.0.0.1:{port}", files=24)
    with Strangers("silent", port, 40) as strangers:
        while strangers.held < 40:
            assert first.poll() is None, first.communicate()[0]
            time.sleep(0.01)
        ends(start(1, f"127.0.0.1:{port}"))
        ends(first)


def meeting_ends():
    """A meeting has a time limit. Strangers that send a byte now and then do not extend it: the process ends
    while they are still sending."""
    port = free_port()
    first = start(0, f"127.0.0.1:{port}", timeout_ms=5000)
    with Strangers("drip", port, 3) as strangers:
        ends(first, "waited 5 s")
        assert strangers.held


def keys_agree():
    for keys in (("a secret", "a secret"), ("k" * 100, "k" * 100)):
        meet = f"127.0.0.1:{free_port()}"
        for p in [start(rank, meet, key=key) for rank, key in enumerate(keys)]:
            ends(p)


def keys_differ():
    """A rank with another key is told at once, and the meeting continues for ranks with the right key."""
    for other in (None, "", "another secret", "a secre"):
        meet = f"127.0.0.1:{free_port()}"
        first = start(0, meet, key="a secret")
        ends(start(1, meet, key=other), "it has another TG_RANK_KEY" if other else "it has a TG_RANK_KEY")
        ends(start(1, meet, key="a secret"))
        ends(first)
    meet = f"127.0.0.1:{free_port()}"
    first = start(0, meet, timeout_ms=5000, key="a secret")
    ends(start(1, meet, key="no"), "it has another TG_RANK_KEY")
    ends(first, "1 that came had another TG_RANK_KEY")


def pump(source, sink):
    """Until an end closes."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def accept(listener, rank):
    """The next connection of a rank that has not ended."""
    listener.settimeout(0.05)
    while True:
        try:
            connection = listener.accept()[0]
            connection.settimeout(None)
            return connection
        except TimeoutError:
            assert rank.poll() is None, rank.communicate()[0]


def evict(rank, nonce):
    """Closes a rank's connection before or after its hello."""
    with rank:
        rank.sendall(nonce)
        if nonce:
            rank.recv(4096)


class Relay:
    """Carries the bytes of a rank's connection to rank 0 and back, during a `with`."""

    def __init__(self, rank, port):
        zero = Strangers("none", port, 0).connect()
        self.threads = [threading.Thread(target=pump, args=ends_of) for ends_of in ((rank, zero), (zero, rank))]

    def __enter__(self):
        for t in self.threads:
            t.start()

    def __exit__(self, *_):
        for t in self.threads:
            t.join()


def greet(port):
    """Connects to rank 0, which answers in the order in which connections arrive, so it has then read all
    earlier messages. Returns the connection and rank 0's nonce."""
    stranger = Strangers("none", port, 0).connect()
    return stranger, stranger.recv(16, socket.MSG_WAITALL)


def evicted_ranks_try_again(host="127.0.0.1", address="127.0.0.1"):
    """A rank's connection is closed before it is answered, as rank 0 does with the oldest of too many, and later
    ones go on to rank 0. The host's name may have more addresses, at which no process listens."""
    port, own = free_port(), free_port(address)
    first = start(0, f"127.0.0.1:{port}")
    with socket.create_server((address, own)) as listener:
        second = start(1, f"{host}:{own}")
        for says in (b"", os.urandom(16), os.urandom(16), b""):
            evict(accept(listener, second), says)
        rank = accept(listener, second)
        with Relay(rank, port):
            ends(second)
            ends(first)


def ranks_of_no_known_user_try_again():
    """Rank 0 finds no user of a connection whose other end has sent its last byte, so it closes it without an
    answer, and the rank comes again."""
    port, own = free_port(), free_port()
    first = start(0, f"127.0.0.1:{port}")
    with socket.create_server(("127.0.0.1", own)) as listener:
        second = start(1, f"127.0.0.1:{own}")
        rank = accept(listener, second)
        stranger, nonce = greet(port)
        rank.sendall(nonce)
        stranger.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # the end comes with the last bytes
        stranger.sendall(rank.recv(4096))
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(4096) == b""
        stranger.close()
        rank.close()
        rank = accept(listener, second)
        with Relay(rank, port):
            ends(second)
            ends(first)


def evicted_ranks_pause():
    """A rank that is always turned down comes ever more rarely. In a second, pauses of 5, 10, 20, 40, 80, and
    then 100 ms leave room for fewer than 16 connections, however fast the machine."""
    own, came = free_port(), 0
    with socket.create_server(("127.0.0.1", own)) as listener:
        second = start(1, f"127.0.0.1:{own}", timeout_ms=1000)
        listener.settimeout(0.05)
        while second.poll() is None:
            try:
                evict(listener.accept()[0], os.urandom(16))
                came += 1
            except TimeoutError:
                pass
        ends(second, "waited 1 s")
    assert 0 < came < 16, came


def late_ranks_are_known():
    """Rank 0 knows the user of a rank that came after another one was accepted."""
    port, own = free_port(), free_port()
    first = start(0, f"127.0.0.1:{port}", ranks=3)
    with socket.create_server(("127.0.0.1", own)) as listener:
        second = start(1, f"127.0.0.1:{own}", ranks=3)
        rank = accept(listener, second)
        zero, nonce = greet(port)
        rank.sendall(nonce)
        zero.sendall(rank.recv(4096))
        greet(port)[0].close()  # rank 0 has accepted rank 1
        third = start(2, f"127.0.0.1:{port}", ranks=3)
        rank.sendall(zero.recv(1 << 20, socket.MSG_WAITALL))
        for p in (third, second, first):
            ends(p)


def another_user():
    """A user, besides root, who can run the program."""
    other = 65534
    if os.geteuid() or subprocess.run([TEGULA, "run", FOLDER / "gather.teg", "-a", "a=rand(2,64)"], user=other,
                                      cwd="/", capture_output=True).returncode:
        raise LeftOut("no other user can run the program")
    return other


def users_with_a_key_meet():
    """With a key, ranks of several users of the host share their memory, whoever listens."""
    other = another_user()
    for users in ((None, other, None), (other, None, other), (None, other, other)):
        meet = f"127.0.0.1:{free_port()}"
        for p in [start(rank, meet, key="a secret", user=user, ranks=3) for rank, user in enumerate(users)]:
            ends(p)


def strangers_get_no_memory():
    """Ranks of one host meet once more, at a name that every process can read. A process without the key gets
    no memory there, and does not keep the ranks from each other."""
    port, own = free_port(), free_port()
    first = start(0, f"127.0.0.1:{port}", key="a secret")
    with socket.create_server(("127.0.0.1", own)) as listener:
        second = start(1, f"127.0.0.1:{own}", key="a secret")
        rank = accept(listener, second)
        zero, nonce = greet(port)
        rank.sendall(nonce)
        zero.sendall(rank.recv(4096))
        answer = zero.recv(1 << 20, socket.MSG_WAITALL)
        strangers = []
        for says in (None, os.urandom(48), b"", os.urandom(4096)):
            s = connect_at_name_in(answer, first)
            assert len(s.recv(4096)) == 16  # the nonce
            if says:
                s.send(says)
            strangers.append(s)
        for s in (strangers[1], strangers[3]):
            data, files, _, _ = socket.recv_fds(s, 4096, 8)
            assert not data and not files, (data, files)
        rank.sendall(answer)
        ends(second)
        ends(first)


def connect_at_name_in(answer, rank):
    """Connects to the abstract socket of the group whose number is in rank 0's answer."""
    while True:
        assert rank.poll() is None, rank.communicate()[0]
        for line in pathlib.Path("/proc/net/unix").read_text().splitlines():
            name = line.split()[-1]
            if name.startswith("@tegula-") and int(name[8:], 16).to_bytes(8, sys.byteorder) in answer:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                s.connect("\0" + name[1:])
                return s
        time.sleep(0.005)


def other_users_stay_out():
    """Without a key, users of the host meet only among themselves; rank 0 goes on waiting for its own."""
    other = another_user()
    meet = f"127.0.0.1:{free_port()}"
    first = start(0, meet)
    ends(start(1, meet, user=other), "belongs to another user")
    ends(start(1, meet))
    ends(first)
    meet = f"127.0.0.1:{free_port()}"
    first = start(0, meet, user=other)
    ends(start(1, meet),
         f"rank 1: meeting rank 0 at '{meet}': a process of another user listens there, or the system does")
    ends(start(1, meet, user=other))
    ends(first)


def strangers_get_no_proof():
    """A stranger forwards to rank 0 the hello of a rank that connected to the stranger, with the rank's
    nonce, and gives the rank the answer."""
    port, own = free_port(), free_port()
    with socket.create_server(("127.0.0.1", own)) as listener:
        first = start(0, f"127.0.0.1:{port}", key="a secret")
        second = start(1, f"127.0.0.1:{own}", key="a secret")
        rank = listener.accept()[0]
        rank.sendall(os.urandom(16))
        hello = rank.recv(4096)
        with Strangers("none", port, 0).connect() as stranger:
            stranger.recv(16, socket.MSG_WAITALL)
            stranger.sendall(hello)
            answer = b"".join(iter(lambda: stranger.recv(65536), b""))
        assert len(answer) > 32
        rank.sendall(answer)
        ends(second, "it has another TG_RANK_KEY, or is not a rank")
        rank.close()
    ends(start(1, f"127.0.0.1:{port}", key="a secret"))
    ends(first)


def other_hosts_need_a_key():
    address = "0.0.0.0"
    for rank in (0, 1):
        port = free_port()
        ends(start(rank, f"{address}:{port}"),
             f"meeting where other hosts can come at '{address}:{port}': TG_RANK_KEY is not set")
        ends(start(rank, f"{address}:{free_port()}", key=""), "TG_RANK_KEY is not set")


def several_hosts():
    """As if on two hosts: the ranks have met, and get the addresses that they need."""
    meet = f"127.0.0.1:{free_port()}"
    both = [start(rank, meet, key="x", TG_COMM_HOST=f"host {rank}") for rank in (0, 1)]
    for p in both:
        ends(p, "ranks 0 and 1 are on different hosts")


def other_sources_are_named():
    """At a port and by a path the error appears at once, before the ranks' time limit."""
    for meet in (f"127.0.0.1:{free_port()}", str(FOLDER / "socket")):
        both = [start(rank, meet, source=source) for rank, source in enumerate(("gather.teg", "other.teg"))]
        texts = [p.communicate()[0] for p in both]
        assert all(p.returncode for p in both), texts
        assert any("launch 'gather' from different sources" in t for t in texts), texts


def scalars_that_steer_agree():
    """A rank with another number of phases would never come. The error names it at once."""
    for turns, fails in (((3, 3), False), ((3, 4), True)):
        meet = f"127.0.0.1:{free_port()}"
        both = [start(rank, meet, source="turns.teg", more_args=("-a", f"n={n}"))
                for rank, n in enumerate(turns)]
        texts = [p.communicate()[0] for p in both]
        assert all(bool(p.returncode) == fails for p in both), texts
        named = ("passes n = 3 and rank 1 4", "passes n = 4 and rank 0 3")
        assert not fails or any(name in t for t in texts for name in named), texts


def run_both(source, values, name="n"):
    meet = f"127.0.0.1:{free_port()}"
    both = [start(rank, meet, source=f"{source}.teg", more_args=("-k", "k", "-a", f"{name}={value}"))
            for rank, value in enumerate(values)]
    texts = [p.communicate()[0] for p in both]
    return [p.returncode for p in both], texts


def numbers_of_every_type_steer():
    for source, (_, one, other) in STEERED.items():
        codes, texts = run_both(source, (one, one))
        assert codes == [0, 0], texts
        codes, texts = run_both(source, (one, other))
        named = ("pass other values of n, which decides what runs" if source in ("float", "generic") else
                 "and that decides what runs")
        assert all(codes) and any(f"{named}: all ranks pass the same" in t for t in texts), (source, texts)
    codes, texts = run_both("scaled", ("1.5", "2.5"), "s")
    assert codes == [0, 0], texts


def listens_at_the_named_address():
    """Ranks do not listen at other addresses of the host: 127.0.0.3 is not 127.0.0.2."""
    port = free_port("127.0.0.2")
    first = start(0, f"127.0.0.2:{port}")
    while True:
        try:
            socket.create_connection(("127.0.0.2", port)).close()
            break
        except OSError:
            assert first.poll() is None, first.communicate()[0]
            time.sleep(0.005)
    for elsewhere in ("127.0.0.1", "127.0.0.3"):
        try:
            socket.create_connection((elsewhere, port)).close()
            raise AssertionError(f"it listens at {elsewhere}, too")
        except ConnectionRefusedError:
            pass
    ends(start(1, f"127.0.0.2:{port}"))
    ends(first)


def alone():
    """In a network of its own with ten ports for connections, of which one is the meeting's, an early rank
    would soon connect to itself."""
    up_and_running, set_flags = 1 | 64, 0x8914  # from <linux/if.h> and <linux/sockios.h>
    with socket.socket() as s:
        fcntl.ioctl(s, set_flags, struct.pack("16sh14x", b"lo", up_and_running))
    pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40009")
    second = start(1, "127.0.0.1:40000")
    for _ in range(50):  # more than enough connections
        assert second.poll() is None, second.communicate()[0]
        time.sleep(0.02)
    first = start(0, "127.0.0.1:40000")
    ends(first)
    ends(second)


def runs_within(*options):
    """A command that runs another one in namespaces of its own."""
    own = ["unshare", *options]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        raise LeftOut(f"{' '.join(own)} fails")
    return own


def run_inside(case, *options):
    done = subprocess.run([*runs_within("--map-root-user", *options), sys.executable, __file__, TEGULA, FOLDER, case],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def no_rank_meets_itself():
    run_inside("alone", "--net")


def all_addresses_are_tried():
    """A host has two addresses, and rank 0 listens at one of them. A refusal of the other one does not mean that
    rank 0 is gone."""
    run_inside("addresses", "--mount")


def addresses():
    both = ["127.0.0.2", "127.0.0.3"]
    hosts = FOLDER / "hosts"
    hosts.write_text("".join(f"{address} both\n" for address in both))
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    found = [entry[4][0] for entry in socket.getaddrinfo("both", 1, type=socket.SOCK_STREAM)]
    assert sorted(found) == both, found
    for address in both:
        evicted_ranks_try_again("both", address)


def users_without_a_number_stay_out():
    """All users without a number in the user namespace have the same one there, so it says nothing."""
    own, meet = runs_within("--user"), f"127.0.0.1:{free_port()}"
    first = start(0, meet, timeout_ms=5000, within=own)
    ends(start(1, meet, within=own), "the system does not say whose")
    ends(first, "waited 5 s")
    meet = f"127.0.0.1:{free_port()}"
    for p in [start(rank, meet, key="a secret", within=own) for rank in (0, 1)]:
        ends(p)


SELECTIONS = {
    "strangers": (meets_with_few_files, meets_among_strangers, meeting_ends, keys_agree, keys_differ,
                  evicted_ranks_try_again, ranks_of_no_known_user_try_again, evicted_ranks_pause,
                  late_ranks_are_known, strangers_get_no_proof, strangers_get_no_memory, other_hosts_need_a_key, several_hosts,
                  other_sources_are_named, scalars_that_steer_agree, numbers_of_every_type_steer,
                  listens_at_the_named_address),
    "users": (other_users_stay_out, users_with_a_key_meet),
    "namespaces": (no_rank_meets_itself, all_addresses_are_tried, users_without_a_number_stay_out),
    "alone": (alone,),  # the last two run within namespaces
    "addresses": (addresses,),
}
SKIPPED = 77  # the tests' code
code = 0
for case in SELECTIONS[sys.argv[3]]:
    try:
        case()
        print(case.__name__, "holds", flush=True)
    except LeftOut as reason:
        print(f"{case.__name__}: left out: {reason}", flush=True)
        code = SKIPPED
raise SystemExit(code)
