"""SIGKILL of PostgreSQL, the postmaster and every process of it, and crash recovery."""

import random
import time

TITLE = "SIGKILL of PostgreSQL"


def run(world, repetitions):
    database = world.add_database()
    world.add_server(database.url)
    world.start_load()
    missing = set()
    for turn in range(repetitions):
        time.sleep(random.uniform(2, 4))
        database.kill()
        # At times longer than all of receiptd's deadlines.
        time.sleep(random.choice([0, 1, 5]))
        started = time.monotonic()
        database.up()
        missing |= world.missing(database)
        world.probe.measure(f"kill {turn + 1}", started)
    world.claim("nothing answered 200 was missing right after recovery", not missing, len(missing))
    return {"kills": repetitions, **world.judge(database)}
