"""Chooses scenarios, runs one after the other, and reports."""

import argparse
import os
import signal
import sys
import time
import traceback

import report
import scenarios
from world import World


def run(name, module, repetitions):
    began = time.monotonic()
    result = {"name": name, "title": module.TITLE, "figures": {}, "claims": [], "error": None}
    world = World(os.environ["FAULTS_BIN"])
    try:
        with world:
            result["figures"] = module.run(world, repetitions)
    except Exception as error:
        traceback.print_exc()
        result["error"] = f"{type(error).__name__}: {error}"
    result["claims"] = world.claims
    result["holds"] = world.held and not result["error"]
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def main():
    parser = argparse.ArgumentParser(prog="scripts/harness/faults")
    parser.add_argument("names", nargs="*", metavar="NAME", help="run these scenarios only")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--times", type=int, help="so many repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    arguments = parser.parse_args()
    if arguments.list:
        for name, module, _, _ in scenarios.ALL:
            print(f"{name:<16}{module.TITLE}")
        return 0
    unknown = set(arguments.names) - {name for name, *_ in scenarios.ALL}
    if unknown:
        parser.error(f"there is no scenario {', '.join(sorted(unknown))}; --list names them")
    # Ends its child processes on SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    results = []
    for name, module, full, quick in scenarios.ALL:
        if arguments.names and name not in arguments.names:
            continue
        results.append(run(name, module, arguments.times or (quick if arguments.quick else full)))
        report.print_scenario(results[-1])
    report.print_table(results)
    if arguments.json:
        report.write_json(results, arguments.json)
    return 0 if all(result["holds"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
