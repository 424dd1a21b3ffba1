"""Checks of the service from inside the machine."""

import re
import time

from processes import wait_until

READY = "curl -fsS http://127.0.0.1:3001/readyz"


def ready(machine):
    wait_until(lambda: machine.output(f"{READY} 2>/dev/null || true").startswith("{") or machine.output(
        f"{READY} -o /dev/null -w '%{{http_code}}' 2>/dev/null || true") == "200", 60, "200 from /readyz")
    return "ready"


def process(machine):
    return machine.output("systemctl show -P MainPID receiptd")


def restarts(machine):
    return int(machine.output("systemctl show -P NRestarts receiptd"))


def journal(machine, words):
    """The number of lines of the service's journal with these words."""
    return int(machine.output(f"journalctl -u receiptd -o cat --no-pager | grep -cF '{words}' || true"))


def linked(machine):
    libraries = machine.output("! command -v swift >/dev/null; ldd /usr/bin/receiptd")
    assert "libswift" not in libraries and "libFoundation" not in libraries and "not found" not in libraries, libraries
    return f"{len(libraries.splitlines())} libraries of Debian's"


def confined(machine):
    status = dict(line.split(":\t", 1) for line in machine.output(f"cat /proc/{process(machine)}/status").split("\n")
                  if ":\t" in line)
    user = machine.output("id -u receiptd")
    assert status["Uid"].split() == [user] * 4 and user != "0", status["Uid"]
    assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status
    return f"uid {user}, no capability, no new privileges, system calls filtered"


def read_only(machine):
    """Finds no folder or file that the process could write."""
    inside = (f"nsenter -t {process(machine)} -m -- setpriv --reuid=receiptd --regid=receiptd --clear-groups "
              "--bounding-set=-all --inh-caps=-all --no-new-privs")
    found = machine.output(rf"{inside} find / -path /proc -prune -o \( -type d -o -type f \) -writable -print 2>/dev/null || true")
    assert not found, f"writable: {found.split()[:20]}"
    for place in ("/tmp", "/var/tmp", "/usr/share/receiptd", "/etc/receiptd", "/run", "/dev/shm"):
        said = machine.output(f"{inside} touch {place}/x 2>&1 || true")
        assert re.search("Read-only|denied", said), f"{place}: {said}"
    return "nothing in the whole tree"


def exposure(machine):
    return machine.output("systemd-analyze security --no-pager receiptd").split("\n")[-1].strip(" →")


def administered(machine):
    """receiptd-admin passes arguments, input and status on, and hides the password."""
    assert machine.output("receiptd-admin psql -XAtc 'SELECT $$it costs $1$$'") == "it costs $1"
    assert machine.output("echo 'SELECT current_user' | receiptd-admin psql -XAt") == "receiptd_app"
    assert machine.output("receiptd-admin --owner psql -XAtc 'SELECT current_user'") == "receiptd_owner"
    assert machine.output("receiptd-admin psql -Xc 'SELECT 1/0' 2>/dev/null || echo $?") == "1"
    assert machine.output("receiptd-admin customer unknown >/dev/null 2>&1 || echo $?") == "1"
    shown = machine.output(r"""
        receiptd-admin psql -Xc 'SELECT pg_sleep(1)' >/dev/null & sleep 0.5
        password=$(sed -n 's|.*receiptd_app:\([^@]*\)@.*|\1|p' /etc/receiptd/receiptd.env)
        list=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ')
        for words in pg_sleep "$password"; do [[ $list = *"$words"* ]] && echo shown || echo hidden; done
        wait""").split()
    assert shown == ["shown", "hidden"], shown
    return "arguments, input and status as they are, the password in no list"


def client_address(machine):
    outside = machine.output("hostname -I").split()[0]
    machine.output(
        "curl -sS -o /dev/null https://receipts.localhost/api/v1/subscriptions/validate -d '{' "
        "-H 'Content-Type: application/json' -H 'X-Forwarded-For: 1.2.3.4' -H 'Forwarded: for=1.2.3.4' "
        "--cacert /var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt "
        f"--resolve receipts.localhost:443:{outside}")
    wait_until(lambda: journal(machine, f'"client":"{outside}"') == 1, 5, "the client's address in the log")
    assert journal(machine, "1.2.3.4") == 0
    return outside


def _comes_back(machine, signal, seconds):
    before, count = process(machine), restarts(machine)
    begin = time.monotonic()
    machine.output(f"kill -{signal} {before}")
    wait_until(lambda: restarts(machine) > count and process(machine) not in ("0", before), seconds, "another process")
    ready(machine)
    return f"ready again after {time.monotonic() - begin:.1f} s"


def killed(machine):
    return _comes_back(machine, "KILL", 20)


def stopped(machine):
    """Only the watchdog notices a stopped process."""
    said = _comes_back(machine, "STOP", 90)
    assert journal(machine, "Watchdog timeout") == 1
    return said


def crashed(machine):
    lines = int(machine.output("journalctl -u receiptd -o cat --no-pager | wc -l"))
    said = _comes_back(machine, "SEGV", 20)
    words = machine.output(f"journalctl -u receiptd -o cat --no-pager | tail -n +{lines + 1}")
    assert "status=11/SEGV" in words or "signal=SEGV" in words or "code=killed, status=11" in words, words
    return said


def reloaded(machine):
    count, before = journal(machine, "reloaded the configuration"), process(machine)
    machine.output("systemctl reload receiptd")
    wait_until(lambda: journal(machine, "reloaded the configuration") > count, 10, "its line in the log")
    assert process(machine) == before and machine.output("systemctl is-active receiptd") == "active"
    return "the same process goes on"


def reloaded_badly(machine):
    before = process(machine)
    machine.output("cp -p /etc/receiptd/apps.json apps.json && echo '{' >>/etc/receiptd/apps.json && systemctl reload receiptd")
    wait_until(lambda: journal(machine, "the configuration was not reloaded") > 0, 10, "its line in the log")
    ready(machine)
    machine.output("cp -p apps.json /etc/receiptd/apps.json && systemctl reload receiptd")
    assert process(machine) == before and machine.output("systemctl is-active receiptd") == "active"
    return "refused, and the one before stays"


def database_restarts(machine):
    before = process(machine)
    machine.output("systemctl restart postgresql")
    ready(machine)
    assert process(machine) == before
    return "ready, the same process"


def ended(machine):
    begin = time.monotonic()
    machine.output("systemctl stop receiptd")
    took = time.monotonic() - begin
    assert machine.output("systemctl show -P Result receiptd") == "success"
    assert machine.output("journalctl -u receiptd -o cat | grep -F '\"message\":\"stopped\"' | wc -l") != "0"
    machine.output("systemctl start receiptd")
    ready(machine)
    return f"in good order, {took:.1f} s"


def lose_all(machine):
    machine.output("""
        systemctl disable --now receiptd 2>/dev/null
        cd /
        runuser -u postgres -- dropdb receiptd
        runuser -u postgres -- psql -qc 'DROP ROLE receiptd_app, receiptd_owner, receiptd_support, receiptd_numbers'
        rm -r /etc/receiptd""")
    return "no database, no roles, no settings"
