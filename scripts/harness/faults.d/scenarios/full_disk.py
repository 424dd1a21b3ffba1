"""The disk under PostgreSQL fills up under load, stays full, and is freed."""

import os
import subprocess
import time

TITLE = "A full disk under PostgreSQL"
SIZE = "256m"
# Small, so that the write-ahead log needs new space while the disk is full.
OPTIONS = "-c max_wal_size=64MB -c min_wal_size=32MB -c wal_recycle=off"


def _mount(world):
    folder = f"{world.folder}/disk"
    os.makedirs(folder)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "receiptd-faults", folder]
    found = subprocess.run(command if os.getuid() == 0 else ["sudo", *command], capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(f"this scenario needs to mount a small file system: {found.stderr.strip()}")
    world.on_exit.append(lambda: subprocess.run(["umount", "-l", folder], check=True))
    return folder


def _fill(path):
    """Fills the file system to the last page."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def run(world, repetitions):
    disk = _mount(world)
    database = world.add_database(OPTIONS, name="disk/postgres")
    world.add_server(database.url)
    load = world.start_load()
    crashes = refused = 0
    for turn in range(repetitions):
        time.sleep(3)
        before = load.counts["notifications answered 503"]
        end = time.monotonic() + 12
        while time.monotonic() < end:
            _fill(f"{disk}/filler")
            time.sleep(0.2)
        refused += load.counts["notifications answered 503"] - before
        os.remove(f"{disk}/filler")
        freed = time.monotonic()
        if not database.is_answering():
            # A write-ahead log without space ends PostgreSQL; a supervisor would start it again.
            crashes += 1
            if not database.is_running:
                database.up()
        world.probe.measure(f"turn {turn + 1}", freed)
    world.claim("the disk was full: notifications were refused", refused > 0, refused)
    return {"times full": repetitions, "PostgreSQL ended by it": crashes, **world.judge(database)}
