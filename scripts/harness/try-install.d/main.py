"""Follows the pages for operators on a machine of its own."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import document
import looks
from debian import Machine
from store import Store

# In the order in which an operator reads them.
DOCUMENTS = ["docs/install.md", "docs/daily-work.md", "docs/runbooks.md"]


class Visitor:
    """Runs the document block by block."""

    def __init__(self, machine, pause):
        self.machine, self.pause = machine, pause
        self.shell = machine.shell()
        self.seconds = 0.0

    def type(self, block):
        begin = time.monotonic()
        succeeded, printed = self.shell.type(block.commands)
        took = time.monotonic() - begin
        self.seconds += took
        first = block.commands.strip().split("\n")[0]
        print(f"{'ok  ' if succeeded else 'FAIL'} {took:6.1f} s  {block.name}: {first[:90]}", flush=True)
        if not succeeded or os.environ.get("TRY_INSTALL_VERBOSE"):
            print(printed, flush=True)
        if not succeeded:
            self.stop(f"{block.name} does not work as written")

    def look(self, what, check):
        begin = time.monotonic()
        try:
            said = check(self.machine)
        except Exception as error:  # Every exception is a failed check.
            print(f"FAIL {time.monotonic() - begin:6.1f} s  {what}: {error}", flush=True)
            self.stop(what)
        print(f"ok   {time.monotonic() - begin:6.1f} s  {what}: {said}", flush=True)

    def stop(self, why):
        if self.pause:
            input(f"the machine is at `nsenter -t {self.machine.leader} -a`; press Return to remove it\n")
        sys.exit(f"scripts/harness/try-install: {why}")


def follow(machine, visitor):
    store = Store(machine)
    blocks = [block for path in DOCUMENTS for block in document.blocks(path)]
    after = {
        # Steps after the block that contains these words.
        "receiptd-setup": lambda: visitor.look("Apple's part", store.open),
        "/etc/caddy/Caddyfile": lambda: look_around(visitor, store),
        "receiptd-backup.timer": lambda: visitor.look("more is bought and refunded after the backup", store.live),
    }
    for block in blocks:
        if block.word in ("builder", "build"):
            continue
        if block.word == "restore":
            visitor.look("the database and the settings are lost", looks.lose_all)
        visitor.type(block)
        for words, then in list(after.items()):
            if words in block.commands:
                del after[words]
                then()
        if block.word == "restore":
            visitor.look("every row is what the App Store says", store.compare)
    if after:
        visitor.stop(f"blocks with {', '.join(after)} are no longer in {', '.join(DOCUMENTS)}")
    visitor.look("still ready", looks.ready)


def look_around(visitor, store):
    print(f"     {visitor.seconds:6.1f} s  in all, from the bare machine to TLS")
    for what, check in [
        ("a purchase over TLS", store.buy), ("renewals and refunds arrive", store.live),
        ("no Swift is installed or linked", looks.linked), ("user and capabilities", looks.confined),
        ("no file can be written", looks.read_only), ("systemd-analyze security", looks.exposure), ("receiptd-admin", looks.administered),
        ("the proxy names the client's address", looks.client_address),
        ("killed, it comes back", looks.killed), ("hanging, it is replaced", looks.stopped),
        ("systemctl reload", looks.reloaded), ("a bad file changes nothing", looks.reloaded_badly),
        ("PostgreSQL restarts beside it", looks.database_restarts), ("a crash is in the journal", looks.crashed),
        ("systemctl stop", looks.ended),
    ]:
        visitor.look(what, check)


def build(folder, base):
    """Step 1 on a separate machine: the commit, with the host's toolchain instead of a download."""
    # The program is in usr/bin of the toolchain.
    toolchain = str(pathlib.Path(shutil.which("swift")).resolve().parents[2])
    places = [toolchain, *filter(None, os.environ.get("TRY_INSTALL_BIND", "").split(":"))]
    machine = Machine(folder, base)
    try:
        subprocess.run(["git", "clone", "-q", ".", f"{folder}/root/receiptd"], check=True)
        machine.boot(*(f"--bind-ro={place}" for place in places))
        visitor = Visitor(machine, "--pause" in sys.argv)
        visitor.shell.type(f"export PATH=$PATH:{toolchain}/usr/bin")
        for block in document.blocks(DOCUMENTS[0]):
            if block.word == "build":
                block.commands = "cd receiptd\n" + block.commands
            if block.word in ("builder", "build"):
                visitor.type(block)
        package, = pathlib.Path(f"{folder}/root/receiptd/.build").glob("receiptd_*.deb")
        shutil.copy(package, os.environ["TRY_INSTALL_PACKAGE"])
    finally:
        machine.stop()
        machine.remove()


def serve(folder, base):
    """All the other steps, on a server."""
    machine = Machine(folder, base)
    try:
        machine.boot()
        # The name in the pages.
        shutil.copy(os.environ["TRY_INSTALL_PACKAGE"], f"{folder}/root/receiptd_0.1.0_amd64.deb")
        shutil.copy(os.environ["TRY_INSTALL_SIMULATOR"], f"{folder}/root/appstore-simulator")
        follow(machine, Visitor(machine, "--pause" in sys.argv))
    finally:
        machine.stop()


def main():
    # Removes the machine on SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    work = tempfile.mkdtemp(prefix="receiptd-try-", dir="/var/tmp")
    try:
        base = os.environ.get("TRY_INSTALL_BASE", f"{work}/base")
        if "--builder" in sys.argv:
            build(f"{work}/builder", base)
        serve(f"{work}/server", base)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("all commands work as they are written")


main()
