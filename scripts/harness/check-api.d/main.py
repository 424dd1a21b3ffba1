"""The program of scripts/harness/check-api."""

import argparse
import os
import shutil
import sys
import tempfile

import fuzzing
from description import Description
from session import Session
from world import World


def main():
    parser = argparse.ArgumentParser(prog="scripts/harness/check-api")
    parser.add_argument("--examples", action="store_true", help="send the examples only")
    parser.add_argument("--max-examples", type=int, default=20, help="generated requests for each operation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    folder = tempfile.mkdtemp(prefix="receiptd-api.", dir="/tmp")
    # PostgreSQL runs as another user if this runs as root, and needs access.
    os.chmod(folder, 0o711)
    world = None
    try:
        description = Description("docs/openapi.yaml")
        world = World(os.environ["CHECK_API_BIN"], folder)
        session = Session(description, world)
        faults = session.run()
        print(f"{session.count} examples sent, {len(faults)} faults")
        if not options.examples and not faults:
            faults += fuzzing.run(description, session, world, folder, options)
        if world.server.child.process.poll() is not None:
            faults.append(f"receiptd ended by itself: {world.server.child.process.returncode}")
        for fault in faults:
            print(f"FAULT {fault}")
        return 1 if faults else 0
    finally:
        if world:
            world.stop()
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
