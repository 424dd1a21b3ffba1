"""Measures `GET /healthz` of receiptd, a bare Dispatch responder and other Swift servers by turns; the medians count."""
import os
import statistics
import urllib.request

from load import Load
from processes import await_port, cpu_seconds, free_port, resident_megabytes

ROUNDS = 5
PATH = "/healthz"
DISPATCH = "healthz, bare Dispatch"
PEERS = {"healthz, Hummingbird 2": "HummingbirdPeer", "healthz, FlyingFox": "FlyingFoxPeer"}


def measure(world, seconds, connections):
    """The results by name; receiptd's is `healthz`."""
    bounds, peers = os.environ["BOUNDS_BIN"], os.environ["PEERS_BIN"]
    servers = {"healthz": (world.server, world.admin_port), DISPATCH: start(world, f"{bounds}/DispatchResponder")}
    servers |= {name: start(world, f"{peers}/{program}") for name, program in PEERS.items()}
    answers = {name: answer(port) for name, (_, port) in servers.items()}
    if len(set(answers.values())) != 1:
        raise SystemExit(f"the answers differ: {answers}")

    # wrk takes whole seconds.
    part = max(1, round(seconds / ROUNDS))
    rounds = {name: [] for name in servers}
    for name, (child, port) in servers.items():
        one_round(child, port, 1, connections)
    for _ in range(ROUNDS):
        for name, (child, port) in servers.items():
            rounds[name].append(one_round(child, port, part, connections))
    results = {name: medians(found) for name, found in rounds.items()}
    for name, (child, _) in servers.items():
        results[name]["to_dispatch"] = results[name]["rate"] / results[DISPATCH]["rate"]
        results[name]["to_receiptd"] = results[name]["rate"] / results["healthz"]["rate"]
        if child is not world.server:
            child.stop()
        rates = ", ".join(f"{one['rate']:.0f}" for one in rounds[name])
        print(f"  {name}: {results[name]['rate']:.0f}/s of {rates}", flush=True)
    return results


def start(world, program):
    port = free_port()
    child = world.start_child([program, str(port)], os.path.basename(program))
    await_port(port)
    return child, port


def answer(port):
    """The parts of a response that must be equal on all servers."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{PATH}", timeout=5) as response:
        return response.status, response.headers["Content-Type"], response.read()


def one_round(child, port, seconds, connections):
    before = cpu_seconds(child.pid)
    result = Load(port, PATH, None, seconds, connections).run()
    if result["refused"] or result["broken"]:
        raise SystemExit(f"{result['refused']} answers were not 2xx, {result['broken']} connections broke")
    result["rate"] = result["requests_per_second"]
    result["server_cpu_per_1000"] = (cpu_seconds(child.pid) - before) / result["requests"] * 1000
    result["resident_mb"] = resident_megabytes(child.pid)
    return result


def medians(rounds):
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
