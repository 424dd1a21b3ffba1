"""The table of results with their ratios to bounds."""
from health import DISPATCH, PEERS

# The suffix of loads on full tables.
FULL = ", full tables"


def print_table(results):
    bounds = results["bounds"]

    def rate(name):
        return results.get(name, {}).get("rate")

    def verifications(name):
        """P-256 verifications a second of all cores around a load."""
        return bounds["cores"] * results[name]["verifications_per_second"] if rate(name) else None

    def as_fast(name, other):
        """The rate of `other`, scaled to the machine's speed during `name`."""
        if not rate(name) or not rate(other):
            return None
        return rate(other) * verifications(name) / verifications(other)

    ratios = {
        "webhook, new": ("of verifications", verifications("webhook, new")),
        "webhook, duplicates": ("of 'webhook, new'", as_fast("webhook, duplicates", "webhook, new")),
        "validate, new": ("of verifications", verifications("validate, new")),
        **{f"{name}, with pauses": (f"of '{name}, new'", as_fast(f"{name}, with pauses", f"{name}, new"))
           for name in ["webhook", "validate"]},
        **{f"{name}{FULL}": (f"of '{name}'", as_fast(f"{name}{FULL}", name))
           for name in ["webhook, new", "validate, new"]},
        **{name: ("of bare Dispatch", rate(DISPATCH)) for name in ["healthz", *PEERS]},
    }
    print(f"\n{results['run']}")
    print("\n| load | a second | ratio | p50 ms | p99 ms | server CPU s/1,000 | PostgreSQL CPU s/1,000 | MB | verifications/s |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for name, result in results.items():
        if not isinstance(result, dict) or "rate" not in result:
            continue
        what, bound = ratios.get(name, ("", None))
        ratio = f"{result['rate'] / bound:.2f} {what}" if bound else ""
        database = result.get("postgres_cpu_per_1000")
        print(f"| {name} | {result['rate']:.0f} | {ratio} | {result['p50']:.2f} | {result['p99']:.2f} | "
              f"{result['server_cpu_per_1000']:.3f} | {'' if database is None else f'{database:.3f}'} | "
              f"{result['resident_mb']:.0f} | {result.get('verifications_per_second', 0):.0f} |")
    for name in PEERS:
        if rate(name):
            print(f"\nreceiptd answers {rate('healthz') / rate(name):.2f} times as many as '{name}'.", end="")
    disk = results.get("webhook, new", {}).get("disk_each")
    if disk:
        print(f"\nDisk per notification: {disk:.0f} bytes. Peak of resident memory: {results['peak_resident_mb']:.0f} MB.")
    print("\nBounds: " + ", ".join(f"{name} {value:.2f}" for name, value in bounds.items()))
