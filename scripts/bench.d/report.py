"""The table, each figure beside the bound that it is held against."""


def print_table(results):
    bounds = results["bounds"]
    verify = bounds["cores"] * bounds["verifications_per_second"]
    ratios = {
        "webhook, new": ("of verifications / 3", verify / 3),
        "webhook, duplicates": ("of 'webhook, new'", results.get("webhook, new", {}).get("rate")),
        "validate, new": ("of verifications", verify),
        "healthz": ("of bare Dispatch", bounds.get("dispatch_per_second")),
    }
    print(f"\n| load | a second | ratio | p50 ms | p99 ms | receiptd CPU s/1,000 | PostgreSQL CPU s/1,000 | MB |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    for name, result in results.items():
        if not isinstance(result, dict) or "rate" not in result:
            continue
        what, bound = ratios.get(name, ("", None))
        ratio = f"{result['rate'] / bound:.2f} {what}" if bound else ""
        print(f"| {name} | {result['rate']:.0f} | {ratio} | {result['p50']:.2f} | {result['p99']:.2f} | "
              f"{result['receiptd_cpu_per_1000']:.3f} | {result['postgres_cpu_per_1000']:.3f} | {result['resident_mb']:.0f} |")
    disk = results.get("webhook, new", {}).get("disk_per_notification")
    if disk:
        print(f"\nDisk per notification: {disk:.0f} bytes. Peak of resident memory: {results['peak_resident_mb']:.0f} MB.")
    print("Bounds: " + ", ".join(f"{name} {value:.2f}" for name, value in bounds.items()))
