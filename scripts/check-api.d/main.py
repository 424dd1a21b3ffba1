"""Starts everything, sends the examples, and lets schemathesis loose. scripts/check-api runs it."""

import argparse
import os
import shutil
import sys
import tempfile

# The processes, the database and HTTP are those of the fault suite.
sys.path.append("scripts/faults.d")

import fuzzing  # noqa: E402
from description import Description  # noqa: E402
from session import Session  # noqa: E402
from world import World  # noqa: E402


def main():
    parser = argparse.ArgumentParser(prog="scripts/check-api")
    parser.add_argument("--examples", action="store_true", help="send the examples only")
    parser.add_argument("--max-examples", type=int, default=20, help="made-up requests for each operation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    folder = tempfile.mkdtemp(prefix="receiptd-api.", dir="/tmp")
    # The database server runs as another user where this runs as root; it has to get through.
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
