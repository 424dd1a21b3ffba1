"""A Chromium by the WebDriver protocol (https://www.w3.org/TR/webdriver2/), which is JSON over HTTP."""

import base64
import os
import time

import web
from processes import Child, await_port, free_port, wait_until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# What Chromium says of an element of a page that it has left.
CHANGED = "stale element", "no such element", "does not belong to the document"


class Driver:
    """chromedriver, which starts a Chromium for each browser."""

    def __init__(self, folder):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.child = Child(["chromedriver", f"--port={port}"], f"{folder}/chromedriver.log")
        await_port(port)

    def stop(self):
        self.child.stop()


class Browser:
    def __init__(self, driver, script=True, dark=False, width=1280):
        arguments = ["--headless=new", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},900"]
        if os.getuid() == 0:
            arguments.append("--no-sandbox")
        options = {"args": arguments, "prefs": {} if script else {
            "profile.managed_default_content_settings.javascript": 2}}
        self.base = f"{driver.url}/session"
        created = self._send("POST", "", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options}}})
        self.base += "/" + created["sessionId"]
        self.clicks = 0
        self._cdp("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})
        # A window of Chromium has at least 500 pixels; a telephone has fewer.
        self.resize(width, 900)

    def _send(self, method, path, body=None):
        answer = web.call(method, self.base + path, body if method == "POST" else None, timeout=60)
        value = answer.json()["value"]
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path} {body}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def _cdp(self, command, parameters):
        return self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def close(self):
        self._send("DELETE", "")

    def resize(self, width, height):
        self._cdp("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})

    # MARK: What a person does

    def open(self, url):
        self._send("POST", "/url", {"url": url})

    def click(self, selector):
        """Clicks an element, which counts."""
        self.clicks += 1
        self._send("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text, enter=False):
        element = self.find(selector)
        self._send("POST", f"/element/{element}/clear", {})
        self._send("POST", f"/element/{element}/value", {"text": text + ("\ue007" if enter else "")})

    def press(self, keys):
        """Presses keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    # MARK: What a person sees

    def find(self, selector):
        """An element by a CSS selector, or by the text of a link or a button after `=`."""
        if selector.startswith("="):
            text = selector[1:]
            path = f"//*[self::a or self::button][normalize-space()='{text}']"
            return self._send("POST", "/element", {"using": "xpath", "value": path})[ELEMENT]
        return self._send("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def has(self, selector):
        return bool(self._send("POST", "/elements", {"using": "css selector", "value": selector}))

    def _read(self, selector, what):
        """Reads of an element, again where the page changed between the two calls."""
        for attempt in range(20):
            try:
                return self._send("GET", f"/element/{self.find(selector)}/{what}")
            except RuntimeError as error:
                if attempt == 19 or not any(words in str(error) for words in CHANGED):
                    raise
                time.sleep(0.1)

    def attribute(self, selector, name):
        return self._read(selector, f"attribute/{name}")

    def text(self, selector="main"):
        return self._read(selector, "text")

    def wait_for(self, text):
        """Waits until the page's main part has the text."""
        wait_until(lambda: self.has("main") and text in self.text(), 10, f"'{text}' on {self.address}")

    def wait_for_address(self, part):
        wait_until(lambda: part in self.address, 10, f"'{part}' in {self.address}")

    @property
    def address(self):
        return self._send("GET", "/url")

    @property
    def cookies(self):
        return self._send("GET", "/cookie")

    def run(self, script, *arguments):
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for_script(self, script, *arguments):
        return self._send("POST", "/execute/async", {"script": script, "args": list(arguments)})

    # MARK: Files

    def picture(self, path):
        """The whole page as PNG."""
        size = self._cdp("Page.getLayoutMetrics", {})["cssContentSize"]
        shot = self._cdp("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 2400), "scale": 1}})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pdf(self):
        return base64.b64decode(self._send("POST", "/print", {}))
