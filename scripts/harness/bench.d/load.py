"""One load against one address: closed by wrk, or open at a fixed rate."""
import json
import os
import re
import subprocess


class Load:
    """wrk with two threads: each connection sends its next request after the response to the last one."""

    def __init__(self, port, path, bodies, seconds, connections, rate=None):
        self.port, self.path, self.bodies = port, path, bodies
        self.seconds, self.connections, self.rate = seconds, connections, rate
        self.threads = min(2, connections)

    def run(self):
        command = ["wrk", f"-t{self.threads}", f"-c{self.connections}", f"-d{self.seconds}s", "--latency"]
        environment = dict(os.environ, THREADS=str(self.threads))
        if self.bodies:
            environment["BODIES"] = self.bodies
        if self.rate:
            environment["PAUSE_MS"] = str(round(self.connections / self.rate * 1000))
        command += ["-s", os.path.join(os.path.dirname(__file__), "load.lua"), f"http://127.0.0.1:{self.port}{self.path}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise SystemExit(f"wrk ended with {done.returncode}: {done.stderr.strip()}")
        text = done.stdout
        found = re.search(r"RESULT (\{.*\})", text)
        if not found:
            raise SystemExit(text)
        result = json.loads(found.group(1))
        result["requests_per_second"] = result["requests"] / result["seconds"]
        return result


class OpenLoad:
    """A fixed rate of arrivals; each latency counts from the instant at which the request was due (see Bounds/OpenLoop)."""

    def __init__(self, port, path, bodies, seconds, connections, rate):
        self.arguments = [str(port), path, bodies, f"{rate:.3f}", str(seconds), str(connections)]

    def run(self):
        done = subprocess.run([f"{os.environ['BOUNDS_BIN']}/OpenLoop", *self.arguments], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"OpenLoop ended with {done.returncode}: {done.stdout.strip()}")
        result = json.loads(done.stdout)
        result["requests_per_second"] = result["requests"] / result["seconds"]
        return result
