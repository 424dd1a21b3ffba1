"""The primary dies and its synchronous standby is promoted; receiptd finds it without help.

Every second time the standby is cut off for some seconds before: nothing new can be answered 200 then, and what the
primary commits alone is lost.
"""

import time

from proxy import Proxy

TITLE = "Failover to a synchronous standby"


def _url(*databases):
    hosts = ",".join(f"127.0.0.1:{database.port}" for database in databases)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"


def _follow(world, primary, name, port=None):
    between = Proxy(primary.port)
    world.on_exit.append(between.close)
    standby = world.add_standby(primary, name, between.port, port)
    primary.set("synchronous_standby_names", "*")
    primary.wait_for_synchronous_standby()
    return standby, between


def run(world, repetitions):
    primary = world.add_database()
    standby, between = _follow(world, primary, "standby-0")
    server = world.add_server(_url(primary, standby))
    world.start_load()
    missing = set()
    for turn in range(repetitions):
        time.sleep(3)
        if turn % 2:
            between.deafen()
            time.sleep(12)
            # Bytes in transit are lost.
            between.refuse()
        primary.kill()
        promoted = time.monotonic()
        standby.promote()
        # The new primary has no standby yet.
        standby.set("synchronous_standby_names", "")
        world.probe.measure(f"failover {turn + 1}", promoted)
        missing |= world.missing(standby)
        primary, dead = standby, primary
        if turn + 1 < repetitions:
            # The next standby takes the dead primary's address.
            standby, between = _follow(world, primary, f"standby-{turn + 1}", dead.port)
    world.claim("nothing answered 200 was missing right after a failover", not missing, len(missing))
    world.claim("receiptd was never restarted", server.child.is_running)
    return {"failovers": repetitions, **world.judge(primary)}

