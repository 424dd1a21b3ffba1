"""Installs, upgrades, removes and purges the Debian package on a machine of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import looks
from debian import Machine
from store import Store

PACKAGE = os.environ["CHECK_DEB_PACKAGE"]
APT = "DEBIAN_FRONTEND=noninteractive apt-get install -y -q"
# What an operator types after the installation.
COMMANDS = ["receiptd-setup", "systemctl enable --now receiptd", "receiptd-admin doctor"]


def step(what, check):
    begin = time.monotonic()
    try:
        said = check()
    except Exception as error:  # Every exception is a failed check.
        print(f"FAIL {time.monotonic() - begin:6.1f} s  {what}: {error}", flush=True)
        sys.exit(f"scripts/harness/check-deb: {what}")
    print(f"ok   {time.monotonic() - begin:6.1f} s  {what}: {said}", flush=True)


class Run:
    def __init__(self, machine):
        self.machine, self.store = machine, Store(machine)
        self.name = os.path.basename(PACKAGE)

    def output(self, commands):
        return self.machine.output(commands)

    def install(self):
        shutil.copy(PACKAGE, f"{self.machine.folder}/root/{self.name}")
        self.output("apt-get update -q")
        self.output(f"{APT} ./{self.name}")
        assert self.output("systemctl is-enabled receiptd || true") == "disabled"
        # For this program, not for the server.
        self.output(f"{APT} curl")
        return self.output("receiptd --version")

    def settings(self):
        """The listed modes, and that only root reads the secrets."""
        shown = self.output("cd /etc/receiptd && stat -c '%n %a %U' * | sort")
        assert shown == "apps.json 644 root\nreceiptd.env 600 root", shown
        manual = self.output("ls /usr/share/man/man1/receiptd*.1.gz | wc -l; ls /usr/share/man/man8/receiptd-*.8.gz | wc -l")
        assert int(manual.split()[0]) > 25 and manual.split()[1] == "3", manual
        completion = self.output("bash -c '. /usr/share/bash-completion/completions/receiptd; complete -p receiptd'")
        return f"{manual.split()[0]} pages of the manual, {completion}"

    def three_commands(self):
        """One more command at a time; the simulated App Store stands in for Apple before the start."""
        for command in COMMANDS:
            printed = self.output(command)
            if command == COMMANDS[0]:
                self.store.open(self.machine)
        lines = [line for line in printed.split("\n") if not line.startswith(" ")]
        assert all(line.startswith("ok") for line in lines), printed
        again = self.output("md5sum /etc/receiptd/*; receiptd-setup >/dev/null; md5sum /etc/receiptd/*").split("\n")
        assert again[: len(again) // 2] == again[len(again) // 2:], "a second receiptd-setup changed the settings"
        return f"{' · '.join(COMMANDS)}; {len(lines)} lines of doctor are ok"

    def purchase(self):
        bought = self.store._buy()
        body = json.dumps({"signedTransaction": bought["signedTransaction"], "deviceID": "phone"})
        with open(f"{self.machine.folder}/root/body.json", "w", encoding="utf-8") as file:
            file.write(body)
        said = self.output("curl -sS -w '\\n%{http_code}' http://127.0.0.1:3000/api/v1/subscriptions/validate "
                           "-H 'Content-Type: application/json' --data @body.json")
        answer, status = said.rsplit("\n", 1)
        assert status == "200" and json.loads(answer)["entitlements"]["isAccessGranted"], said
        return f"{status}, {json.loads(answer)['entitlements']['status']}"

    def build_info(self):
        shown = self.output("curl -fsS http://127.0.0.1:3001/metrics | grep ^receiptd_build_info")
        version, commit = re.match(r"receiptd (\S+)(?: \((\S+)\))?", self.output("receiptd --version")).groups()
        assert f'version="{version}"' in shown and f'commit="{commit or "unknown"}"' in shown, shown
        return shown

    def refused(self, commands, said):
        """Checks that commands fail and say this."""
        printed = self.output(f"! ({commands}) 2>&1")
        assert said in printed, printed

    def backup(self):
        folder = self.output("receiptd-backup").split("\n")[-1]
        listed = self.output(f"ls {folder}").split()
        assert listed == ["receiptd.dump", "roles.sql", "settings.tar.gz"], listed
        # Two at once: each makes a backup of its own.
        self.output("(receiptd-backup & receiptd-backup && wait $!) 2>&1")
        kept = self.output("cd /var/backups/receiptd && ls -d *Z && find . -name '*.part'").split()
        assert len(kept) == 3, kept
        self.output("systemctl start receiptd-backup.service && systemctl start receiptd-backup.timer")
        # A program that cannot run makes no copy elsewhere, so the backup fails.
        self.refused("touch /etc/receiptd/after-backup; receiptd-backup", "Permission denied")
        self.output("rm /etc/receiptd/after-backup")
        self.refused("receiptd-backup --help", "systemctl enable")
        return f"{folder}: {self.output(f'pg_restore --list {folder}/receiptd.dump | wc -l')} entries"

    def changed_package(self, version, conffiles):
        """The same package with another version, and perhaps with other settings."""
        folder = tempfile.mkdtemp(prefix="receiptd-deb-", dir="/var/tmp")
        try:
            subprocess.run(["dpkg-deb", "-R", PACKAGE, f"{folder}/root"], check=True)
            control = f"{folder}/root/DEBIAN/control"
            with open(control, encoding="utf-8") as file:
                text = re.sub(r"^Version: .*$", f"Version: {version}", file.read(), flags=re.MULTILINE)
            with open(control, "w", encoding="utf-8") as file:
                file.write(text)
            if conffiles:
                for name in ("apps.json", "receiptd.env"):
                    with open(f"{folder}/root/etc/receiptd/{name}", "a", encoding="utf-8") as file:
                        file.write("\n")
            path = f"{self.machine.folder}/root/receiptd_{version}_amd64.deb"
            subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", f"{folder}/root", path], check=True,
                           stdout=subprocess.DEVNULL)
            return os.path.basename(path)
        finally:
            shutil.rmtree(folder)

    def upgrade(self):
        """A later version asks nothing, keeps the settings and leaves the running server alone."""
        self.output("echo >>/etc/receiptd/apps.json")
        before = self.output("md5sum /etc/receiptd/*")
        process = looks.process(self.machine)
        plain = self.changed_package("99.0.0", conffiles=False)
        # Without a terminal: a question would fail the installation.
        printed = self.output(f"{APT} ./{plain} </dev/null")
        assert "installed before still runs; next: receiptd-admin --owner migrate" in printed, printed
        assert self.output("md5sum /etc/receiptd/*") == before
        assert looks.process(self.machine) == process, "the upgrade restarted the server"
        other = self.changed_package("99.0.1", conffiles=True)
        self.output(f"{APT} -o Dpkg::Options::=--force-confold ./{other} </dev/null")
        kept = self.output("md5sum /etc/receiptd/apps.json /etc/receiptd/receiptd.env /etc/receiptd/owner.env")
        assert set(kept.split("\n")) <= set(before.split("\n")), kept
        self.refused("cd /etc/receiptd; mv owner.env kept.env; trap 'mv kept.env owner.env' EXIT; "
                     "receiptd-admin --owner migrate", "run this on the server that has it")
        self.output("receiptd-admin --owner migrate && systemctl restart receiptd")
        looks.ready(self.machine)
        printed = self.output(f"{APT} --allow-downgrades -o Dpkg::Options::=--force-confold ./{plain} </dev/null")
        assert "next: systemctl restart receiptd" in printed, printed
        self.output(f"{APT} -o Dpkg::Options::=--force-confold ./{other} </dev/null && systemctl restart receiptd")
        looks.ready(self.machine)
        version = self.output("dpkg-query -W -f '${Version}' receiptd")
        return f"settings and process stay; {version} runs after a restart"

    def removal(self):
        self.output("DEBIAN_FRONTEND=noninteractive apt-get remove -y -q receiptd </dev/null")
        assert self.output("systemctl is-active receiptd || true") != "active"
        assert self.output("ls /etc/receiptd | grep -cE '^(apps.json|receiptd.env|owner.env)$'") == "3"
        self.output("install -m 640 /dev/null /etc/receiptd/AuthKey.p8")
        printed = self.output("DEBIAN_FRONTEND=noninteractive apt-get purge -y -q receiptd </dev/null")
        left = self.output("ls -A /etc/receiptd; find /etc/systemd /lib/systemd -name 'receiptd*'")
        assert left == "AuthKey.p8", f"{left}\n{printed}"
        return "the settings stay with remove; purge removes them, and leaves the key that we put there"

    def rows(self):
        return self.output("cd / && runuser -u postgres -- psql -XAtc 'SELECT count(*) FROM subscriptions' receiptd")

    def after_purge(self):
        before = self.rows()
        assert before != "0"
        self.output(f"{APT} ./{self.name} </dev/null && receiptd-setup")
        self.store.settings(self.machine)
        self.output("systemctl enable --now receiptd")
        looks.ready(self.machine)
        self.purchase()
        assert int(self.rows()) == int(before) + 1
        return f"{before} subscriptions are still there, new passwords, another purchase is answered 200"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    work = tempfile.mkdtemp(prefix="receiptd-deb-", dir="/var/tmp")
    machine = None
    try:
        machine = Machine(f"{work}/server", os.environ.get("TRY_INSTALL_BASE", f"{work}/base"))
        machine.boot()
        shutil.copy(os.environ["TRY_INSTALL_SIMULATOR"], f"{work}/server/root/appstore-simulator")
        run = Run(machine)
        for what, check in [
            ("apt-get install", run.install), ("settings, manual, completion", run.settings),
            ("three commands", run.three_commands), ("a purchase", run.purchase), ("receiptd_build_info", run.build_info),
            ("no Swift is installed or linked", lambda: looks.linked(machine)),
            ("user and capabilities", lambda: looks.confined(machine)), ("a backup", run.backup),
            ("an upgrade", run.upgrade), ("a purchase after it", run.purchase), ("remove and purge", run.removal),
            ("installed again", run.after_purge),
        ]:
            step(what, check)
    finally:
        if machine is not None:
            machine.stop()
        shutil.rmtree(work, ignore_errors=True)
    print("the package works")


main()
