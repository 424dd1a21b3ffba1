"""A Debian 12 in a folder, with a systemd, a network and processes of its own."""

import os
import shutil
import signal
import subprocess

from processes import wait_until

# The packages of every Debian that boots; the harness installs the rest.
PACKAGES = "systemd-sysv,dbus"
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
               "LANG": "C.UTF-8", "TERM": "dumb"}


def bare_debian(folder, *options):
    """Makes a Debian 12 in a folder, unless the folder has one of an earlier run."""
    if not os.path.exists(f"{folder}/bin/bash"):
        new = f"{folder}.new"
        shutil.rmtree(new, ignore_errors=True)
        with open(f"{folder}.log", "w", encoding="utf-8") as log:
            subprocess.run(["debootstrap", "--variant=minbase", *options, "bookworm", new], check=True, stdout=log)
        os.rename(new, folder)


class Machine:
    def __init__(self, folder, base):
        self.folder, self.log = folder, folder + ".console"
        self.nspawn = self.network = self.leader = None
        bare_debian(base, f"--include={PACKAGES}")
        subprocess.run(["cp", "-a", "--reflink=auto", base, folder], check=True)
        with open(f"{folder}/etc/resolv.conf", "w", encoding="utf-8") as file:
            file.write("nameserver 10.0.2.3\n")

    def boot(self, *options):
        command = ["systemd-nspawn", "--boot", f"--directory={self.folder}", "--machine=receiptd-try", "--register=no",
                   "--private-network", "--resolv-conf=off", "--console=pipe", *options]
        if not os.path.isdir("/run/systemd/system"):
            # The host has no systemd that could make a unit.
            command.append("--keep-unit")
        with open(self.log, "w", encoding="utf-8") as log:
            self.nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._find_leader, 30, "the machine's start")
        # A user-space network: it changes nothing on the host and cannot reach the host's services.
        self.network = subprocess.Popen(
            ["slirp4netns", "--configure", "--disable-host-loopback", str(self.leader), "tap0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.output("systemctl is-system-running || true") in ("running", "degraded"), 60,
                   "the end of the machine's start")

    def _find_leader(self):
        if self.nspawn.poll() is not None:
            with open(self.log, encoding="utf-8") as log:
                raise RuntimeError(f"systemd-nspawn ended: {log.read()}")
        found = subprocess.run(["pgrep", "-P", str(self.nspawn.pid), "-x", "systemd"], capture_output=True, text=True)
        self.leader = int(found.stdout) if found.stdout else None
        return self.leader is not None

    def _inside(self, *command):
        return ["nsenter", "-t", str(self.leader), "-a", "env", "-i", *(f"{k}={v}" for k, v in ENVIRONMENT.items()),
                *command]

    def output(self, commands, stdin=subprocess.DEVNULL):
        """The output of commands, each of which must succeed."""
        done = subprocess.run(self._inside("bash", "-euc", f"cd; {commands}"), stdin=stdin, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{commands}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def show(self, commands):
        """Runs commands with the output of this program, and returns the status."""
        return subprocess.run(self._inside("bash", "-euc", f"cd; {commands}"), stdin=subprocess.DEVNULL).returncode

    def shell(self):
        return Shell(self._inside("bash"), f"{self.folder}/root")

    def stop(self):
        if self.nspawn is not None and self.nspawn.poll() is None:
            # SIGTERM shuts the machine down in order.
            self.nspawn.send_signal(signal.SIGTERM)
            try:
                self.nspawn.wait(30)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
        if self.network is not None:
            self.network.terminate()
            self.network.wait()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Shell:
    """A shell that keeps variables from one block to the next."""

    def __init__(self, command, home):
        self.home = home
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)

    def type(self, commands):
        """Runs a block up to its end or to the first command that fails.

        Returns whether all went well, and what was printed."""
        with open(f"{self.home}/.typed", "w", encoding="utf-8") as file:
            file.write(commands)
        self.process.stdin.write("cd; set -e; . ~/.typed </dev/null; set +e; printf '\\n\\a\\n'\n")
        self.process.stdin.flush()
        printed = ""
        for line in self.process.stdout:
            if line == "\a\n":
                return True, printed.removesuffix("\n")
            printed += line
        return False, printed
