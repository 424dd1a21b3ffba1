"""The processes of a run, and what they used."""
import os
import signal
import socket
import subprocess
import time
import urllib.request

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Child:
    """A process that is ended with the run."""

    def __init__(self, command, log, environment=None):
        self.log = open(log, "wb")
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, env={**os.environ, **(environment or {})})

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.log.close()


def await_url(url, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"{url} does not answer")
            time.sleep(0.02)


def await_port(port, seconds=10):
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"nobody listens on {port}")
            time.sleep(0.02)


def cpu_seconds(pid):
    """User and system time of a process, its ended children included."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def family(pid):
    """A process and its descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                pass
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, [])
    return found


def family_cpu_seconds(pid):
    total = 0
    for one in family(pid):
        try:
            total += cpu_seconds(one)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def resident_megabytes(pid, peak=False):
    key = "VmHWM:" if peak else "VmRSS:"
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(key):
                return int(line.split()[1]) / 1024
    return 0
