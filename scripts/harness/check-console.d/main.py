"""The program of scripts/harness/check-console."""

import argparse
import csv
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import web
from browser import Browser, Driver
from processes import wait_until
from world import World

MAXIMUM_CLICKS = 3
PARTS = ["sign_in_and_out", "tasks", "selection", "charts", "keys", "accessibility"]


class Check:
    def __init__(self, world, driver):
        self.world, self.driver = world, driver
        self.faults, self.count = [], 0

    def that(self, holds, claim):
        self.count += 1
        if not holds:
            self.faults.append(claim)
            print(f"FAULT {claim}")

    # MARK: People

    def sign_in(self, role="lead", **options):
        browser = Browser(self.driver, **options)
        browser.open(self.world.console)
        browser.type("#token", self.world.tokens[role], enter=True)
        browser.wait_for("")
        return browser

    def sign_in_and_out(self):
        for script in (True, False):
            self._sign_in_and_out(script)

    def _sign_in_and_out(self, script):
        browser = Browser(self.driver, script=script)
        browser.open(f"{self.world.console}/record")
        self.that("/sign-in" in browser.address, "a page without a session leads to the sign-in")
        browser.type("#token", "receiptd_" + "A" * 43, enter=True)
        browser.wait_for("not the token of a person")
        self.that("/sign-in" in browser.address, "a wrong token is told")
        browser.type("#token", self.world.tokens["lead"], enter=True)
        browser.wait_for("Record")
        self.that(urlsplit(browser.address).path == "/console/record", "the sign-in leads back to the page")
        cookie = browser.cookies[0]
        self.that(cookie["httpOnly"] and cookie["sameSite"] == "Strict", "the cookie is HttpOnly and SameSite=Strict")
        browser.click("=Sign out")
        browser.open(f"{self.world.console}/record")
        self.that("/sign-in" in browser.address, "a signed-out browser sees nothing")
        browser.close()

    # MARK: The five tasks

    def tasks(self):
        for script in (True, False):
            self._tasks(script)

    def _tasks(self, script):
        world, kind = self.world, "" if script else ", without the script"
        for name, task in [
            ("an order id becomes an answer", self._find_order), ("access is granted", self._grant),
            ("a purchase moves from a refused request", self._move), ("a month's report", self._report),
            ("a delivery is sent again", self._requeue),
        ]:
            browser = self.sign_in(script=script)
            browser.open(world.console)
            browser.clicks = 0
            try:
                self.that(task(browser, script), name + kind)
            except (RuntimeError, TimeoutError) as error:
                self.that(False, f"{name}{kind}: {error}")
            print(f"{name}{kind}: {browser.clicks} clicks")
            self.that(browser.clicks <= MAXIMUM_CLICKS, f"{name} takes {browser.clicks} clicks{kind}")
            browser.close()

    def _find_order(self, browser, script):
        browser.type("#q", self.world.order, enter=True)
        browser.wait_for(self.world.purchase)
        return "Access" in browser.text()

    def _act(self, browser, reason, *buttons):
        browser.type("#f-reason", reason)
        for button in buttons:
            browser.click(f"={button}")
            browser.wait_for("Nothing is changed yet" if button == "Preview" else "Record ")
        return "/console/record/" in browser.address and reason in browser.text()

    def _grant(self, browser, script):
        browser.type("#q", self.world.user, enter=True)
        browser.wait_for(self.world.purchase)
        browser.click("=Grant access")
        return self._act(browser, "waited for an answer", "Preview", "Grant access")

    def _move(self, browser, script):
        # The second time it goes back: the first request is settled, and the former owner shows the purchase again.
        to = self.world.stranger if script else self.world.user
        if not script:
            self.world.refuse(to)
            wait_until(lambda: self._sees(browser, "Transfer"), 30, "the second refused request")
        browser.click("=Transfer")
        browser.type("#f-reason", "signed in with another account")
        browser.click("=Preview")
        browser.wait_for("Nothing is changed yet")
        shown = browser.text()
        sides = self.world.user in shown and self.world.stranger in shown and "before" in shown
        browser.click("=Transfer a purchase")
        browser.wait_for("Record ")
        owner = self.world.database.query(
            f"SELECT user_id FROM subscriptions WHERE original_transaction_id = '{self.world.purchase}'")
        return sides and owner == to

    def _sees(self, browser, text):
        browser.open(self.world.console)
        return text in browser.text()

    def _report(self, browser, script):
        browser.click("=Report")
        month = browser.attribute("select[name=month] option:nth-child(3)", "value")
        browser.click("select[name=month] option:nth-child(3)")
        if not script:
            browser.click("=Show")
        browser.wait_for_address(f"month={month}")
        browser.wait_for("From the MRR at the start")
        pdf = browser.pdf()
        return pdf.startswith(b"%PDF") and len(pdf) > 20_000

    def _requeue(self, browser, script):
        self.world.database.query(f"UPDATE outbox SET dead_at = now(), done_at = NULL WHERE id = {self.world.delivery}")
        browser.click("=Queues")
        browser.click(f"a[href$='rows=outbox%3A{self.world.delivery}']")
        done = self._act(browser, "the schema is deployed", "Try again")
        return done and self.world.database.query(
            f"SELECT dead_at IS NULL FROM outbox WHERE id = {self.world.delivery}") == "t"

    # MARK: A selection

    def selection(self):
        for script in (True, False):
            self.world.database.query(f"UPDATE outbox SET dead_at = now(), done_at = NULL WHERE id = {self.world.delivery}")
            browser = self.sign_in(script=script)
            browser.open(f"{self.world.console}/queues?state=dead")
            browser.click(f"input[value='outbox:{self.world.delivery}']")
            browser.click("=Try the selected ones again")
            browser.wait_for("Reason, for the record")
            done = self._act(browser, "the receiver is back", "Preview", "Try again")
            self.that(done and self.world.database.query(
                f"SELECT dead_at IS NULL FROM outbox WHERE id = {self.world.delivery}") == "t", "a selection is tried again")
            browser.close()

    # MARK: Charts

    def charts(self):
        browser = self.sign_in("numbers")
        browser.open(f"{self.world.console}/numbers")
        browser.wait_for("MRR")
        cookie = browser.cookies[0]
        for chart in ["mrr", "revenue", "subscribers"]:
            browser.open(f"{self.world.console}/numbers/{chart}")
            drawn = browser.run(
                "return [...document.querySelectorAll('.on-wide [data-values]')].map(e => e.dataset.values)")
            address = browser.attribute("a[download]", "href")
            address = f"http://127.0.0.1:{self.world.server.admin_port}{urlsplit(address).path}?{urlsplit(address).query}"
            answer = web.get(address, headers={"Cookie": f"{cookie['name']}={cookie['value']}"})
            lines = list(csv.reader(io.StringIO(answer.body.decode())))
            found = [{float(cell) for cell in line if self._is_number(cell)} for line in lines[1:]]
            self.that(len(drawn) == len(found) and len(drawn) > 3, f"{chart}: {len(drawn)} places, {len(found)} lines")
            for values, line in zip(drawn, found):
                self.that(
                    all(float(value) in line for value in values.split() if value != "-"),
                    f"{chart}: {values} is in {line}")
        browser.close()

    @staticmethod
    def _is_number(text):
        try:
            float(text)
            return True
        except ValueError:
            return False

    # MARK: Script and keys

    def keys(self):
        browser = self.sign_in()
        browser.open(f"{self.world.console}/lists")
        browser.press("/")
        focused = browser.run("return document.activeElement.id")
        self.that(focused == "q", f"'/' goes to the search box, not to '{focused}'")
        browser.open(f"{self.world.console}/search")
        browser.press("\ue004")
        skip = browser.run("return document.activeElement.className")
        self.that(skip == "skip", "the first key of the keyboard skips to the content")
        browser.open(f"{self.world.console}/queues")
        self.that(browser.has(".pause"), "a watched page can be paused")
        browser.close()

    # MARK: Screens

    @property
    def screens(self):
        world = self.world
        return {
            "search": "search", "found": f"search?q={world.stranger}", "customer": f"customer/{world.user}",
            "device": f"customer/{world.parent}", "billing-trouble": f"customer/{world.failing}",
            "lists": "lists?list=renewing&days=31", "numbers": "numbers", "chart": "numbers/mrr",
            "retention": "numbers/retention", "report": "report", "queues": "queues", "record": "record",
            "record-one": "record/1", "people": "people", "configuration": "configuration", "health": "health",
            "checks": "health?checks=1", "runbook": "runbooks/ReceiptdSweepLag", "what-if": "what-if",
            "export": f"customer/{world.user}/export/page", "unknown": "customer/nothing",
            "grant": f"act/grant?customer={world.user}&bundleID=com.swiftclimb.app&back={world.user}",
            "transfer": f"act/transfer?originalTransactionID={world.purchase}", "people-add": "act/people-add",
        }

    def accessibility(self):
        package = Path(importlib.util.find_spec("axe_core_python").origin).parent
        axe = (package / "axe.min.js").read_text()
        for dark, width in [(False, 1280), (True, 1280), (False, 390)]:
            browser = Browser(self.driver, dark=dark, width=width)
            browser.open(f"{self.world.console}/sign-in")
            self._audit(browser, axe, f"sign-in {'dark ' if dark else ''}{width}")
            browser.type("#token", self.world.tokens["lead"], enter=True)
            browser.wait_for("")
            for name, path in self.screens.items():
                browser.open(f"{self.world.console}/{path}")
                self._audit(browser, axe, f"{name} {'dark ' if dark else ''}{width}")
                wide = browser.run("return document.documentElement.scrollWidth > window.innerWidth")
                self.that(not wide, f"{name} {width}: the page scrolls sideways")
            browser.close()

    def _audit(self, browser, axe, screen):
        browser.run(axe)
        found = browser.wait_for_script(
            "axe.run({resultTypes: ['violations']}).then(arguments[0], e => arguments[0]({violations: [{id: String(e), "
            "impact: 'critical', nodes: []}]}))")
        self.that(len(found.get("passes", [])) > 10, f"{screen}: axe-core ran")
        for fault in found["violations"]:
            if fault["impact"] in ("serious", "critical"):
                places = "; ".join(node["html"][:160] for node in fault["nodes"][:3])
                self.that(False, f"{screen}: {fault['id']}, {len(fault['nodes'])} places: {places}")

    def pictures(self, folder):
        os.makedirs(folder, exist_ok=True)
        for dark in (False, True):
            for width in (1280, 390):
                browser = self.sign_in(dark=dark, width=width)
                for name, path in self.screens.items():
                    browser.open(f"{self.world.console}/{path}")
                    browser.picture(f"{folder}/{name}-{'dark' if dark else 'light'}-{width}.png")
                browser.close()


def main():
    parser = argparse.ArgumentParser(prog="scripts/harness/check-console")
    parser.add_argument("--pictures", metavar="FOLDER", help="write a picture of each screen")
    parser.add_argument("--only", choices=PARTS, help="one part of the check")
    parser.add_argument("--serve", action="store_true", help="leave the console open for a person")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="receiptd-console.", dir="/tmp")
    # PostgreSQL runs as another user if this runs as root, and needs access.
    os.chmod(folder, 0o711)
    world = driver = None
    try:
        world = World(os.environ["CHECK_CONSOLE_BIN"], folder)
        if options.serve:
            print(f"{world.console}\n" + "\n".join(f"{role}: {token}" for role, token in world.tokens.items()))
            input("Press Return to stop everything. ")
            return 0
        driver = Driver(folder)
        check = Check(world, driver)
        for part in [options.only] if options.only else PARTS:
            getattr(check, part)()
        if options.pictures:
            check.pictures(options.pictures)
        print(f"{check.count} checks, {len(check.faults)} faults")
        return 1 if check.faults else 0
    except BaseException:
        for log in sorted(Path(folder).glob("*.log")):
            print(f"{log.name}:", "".join(log.read_text().splitlines(keepends=True)[-20:]), sep="\n")
        raise
    finally:
        if driver:
            driver.stop()
        if world:
            world.stop()
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
