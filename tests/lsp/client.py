# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A client of the language server, for tests: plain JSON-RPC over pipes."""
import json
import os
import pathlib
import subprocess
import threading


class Failure(Exception):
    """An error response."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """A server process. `notes` has the notifications that came in, oldest first."""

    def __init__(self, command, root=None, options=None, start=True, limit_s=120):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.notes, self.next_id, self.capabilities = [], 0, None
        self.watchdog = threading.Timer(limit_s, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        if start:
            uri = pathlib.Path(root).as_uri() if root else None
            result = self.request("initialize", {"processId": os.getpid(), "rootUri": uri, "capabilities": {},
                                                 "initializationOptions": options or {}})
            self.capabilities = result["capabilities"]
            self.notify("initialized", {})

    def send_bytes(self, body, header=None):
        self.process.stdin.write((header or b"Content-Length: %d\r\n\r\n" % len(body)) + body)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def read(self):
        """The next message of the server; None at its end."""
        length = 0
        while True:
            line = self.process.stdout.readline()
            if not line:
                return None
            if line == b"\r\n":
                break
            name, value = line.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length).decode("utf-8"))

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def answer(self, wanted):
        """Reads until the response with this id."""
        while True:
            message = self.read()
            if message is None:
                raise EOFError(f"the server ended with {self.process.wait()}")
            if "method" in message:
                self.notes.append(message)
            elif message["id"] == wanted:
                if "error" in message:
                    raise Failure(message["error"])
                return message["result"]

    def read_error(self):
        """Reads until an error response."""
        while True:
            message = self.read()
            if "error" in message:
                return message["error"]
            self.notes.append(message)

    def request(self, method, params):
        self.next_id += 1
        self.send({"id": self.next_id, "method": method, "params": params})
        return self.answer(self.next_id)

    # ---- documents

    def open(self, path, text, version=1):
        uri = path if ":" in str(path) else pathlib.Path(path).as_uri()
        self.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "tegula", "version": version,
                                                              "text": text}})
        return uri

    def change(self, uri, version, *changes):
        self.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": version},
                                               "contentChanges": list(changes)})

    def diagnostics(self, uri, version=None):
        """The next diagnostics of a document (of this version)."""
        while True:
            for i, note in enumerate(self.notes):
                params = note["params"]
                if note["method"] == "textDocument/publishDiagnostics" and params["uri"] == uri and \
                        version in (None, params.get("version")):
                    del self.notes[:i + 1]
                    return params["diagnostics"]
            message = self.read()
            if message is None:
                raise EOFError(f"the server ended with {self.process.wait()}")
            if "error" in message:
                raise Failure(message["error"])
            self.notes.append(message)

    def at(self, method, uri, line, character, **more):
        return self.request("textDocument/" + method, {"textDocument": {"uri": uri}, "position": {
            "line": line, "character": character}, **more})

    def of(self, method, uri, **more):
        return self.request("textDocument/" + method, {"textDocument": {"uri": uri}, **more})

    def close(self):
        """Shuts the server down; returns its exit code."""
        self.request("shutdown", None)
        self.notify("exit", None)
        code = self.process.wait()
        self.end()
        return code

    def end(self):
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def cpu_s(self):
        """The processor time that the server has used."""
        fields = open(f"/proc/{self.process.pid}/stat", encoding="ascii").read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run_ns(self):
        """As cpu_s, in nanoseconds, of the kernel's scheduler: exact also for one keystroke."""
        return int(open(f"/proc/{self.process.pid}/schedstat", encoding="ascii").read().split()[0])

    def memory_kib(self):
        """The resident memory of the server."""
        for line in open(f"/proc/{self.process.pid}/status", encoding="ascii"):
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return 0
