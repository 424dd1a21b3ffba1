"""Processes that are started here and end with this one, and the waiting for them."""

import os
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(condition, seconds, what, pause=0.05):
    """Asks until `condition` holds; returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {seconds} s")
        time.sleep(pause)


class Child:
    """A program with its output in a file."""

    def __init__(self, command, log, environment=None):
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, **(environment or {})})

    @property
    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        """As the kernel does it: no handler runs."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if not self.is_running:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
