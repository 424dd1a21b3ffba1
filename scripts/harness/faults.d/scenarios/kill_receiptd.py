"""SIGKILL of receiptd under load, and a start as a supervisor would do it."""

import random
import time

TITLE = "SIGKILL of receiptd"


def run(world, repetitions):
    database = world.add_database()
    server = world.add_server(database.url)
    world.start_load()
    missing = set()
    for turn in range(repetitions):
        # At times during the start, mostly under load.
        time.sleep(random.choice([0.3, 1, 2]))
        killed = time.monotonic()
        server.kill()
        missing |= world.missing(database)
        server.start()
        world.probe.measure(f"kill {turn + 1}", killed)
    world.claim("nothing answered 200 was missing right after a kill", not missing, len(missing))
    return {"kills": repetitions, **world.judge(database)}
