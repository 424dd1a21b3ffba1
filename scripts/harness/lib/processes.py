"""Child processes, and their use of the machine."""
import os
import socket
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Child:
    """A process that ends with the run, with its output in a file."""

    def __init__(self, command, log, environment=None):
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, **(environment or {})})

    @property
    def pid(self):
        return self.process.pid

    @property
    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        """Sends SIGKILL, so that no handler runs."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        if not self.is_running:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


def wait_until(condition, seconds, what, pause=0.05):
    """Polls `condition` until it holds; returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {seconds} s")
        time.sleep(pause)


def await_port(port, seconds=10):
    def listens():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False
    wait_until(listens, seconds, f"a server on port {port}")


def cpu_seconds(pid):
    """User and system time of a process, including its ended children."""
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
