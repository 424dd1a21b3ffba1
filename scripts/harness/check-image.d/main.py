"""Makes an engine and the images that the project's files name, and runs try-compose on it."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from debian import Machine, bare_debian

BASES = "scripts/harness/check-image.d/bases"
# The target of BASES for each image that Dockerfile and docker-compose.yml name; those without one are not in Debian.
TARGETS = {"swift": "swift", "postgres": "postgres", "caddy": "caddy", "prom/prometheus": "prometheus",
           "prom/alertmanager": "alertmanager", "grafana/grafana": None}
# What the official image of Debian has beside its packages.
SLIM = {
    "etc/apt/sources.list": "".join(f"deb http://deb.debian.org/{suite} main\n" for suite in (
        "debian bookworm", "debian bookworm-updates", "debian-security bookworm-security")),
    "etc/apt/apt.conf.d/docker-clean":
        'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\nDPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };\n',
    "etc/dpkg/dpkg.cfg.d/docker": "".join(f"path-exclude /usr/share/{name}/*\n" for name in ("doc", "man", "locale")),
}
UNUSED_TOOLS = ["usr/bin/*lldb*", "usr/bin/clangd", "usr/bin/docc", "usr/bin/sourcekit-lsp", "usr/bin/swift-format",
                "usr/lib/liblldb*", "usr/lib/libsourcekitd*"]
OPEN_FILES = 4096


def say(what):
    print(f"\n\033[1m{what}\033[0m", flush=True)


class Engine:
    """A machine with Debian's own container engine."""

    def __init__(self, work, base):
        self.machine = Machine(f"{work}/server", base)
        # The program is in usr/bin of the toolchain.
        self.toolchain = str(pathlib.Path(shutil.which("swift")).resolve().parents[2])
        for unit in ("containerd", "docker"):
            folder = f"{self.machine.folder}/etc/systemd/system/{unit}.service.d"
            os.makedirs(folder)
            with open(f"{folder}/limit.conf", "w", encoding="utf-8") as file:
                file.write(f"[Service]\nLimitNOFILE={OPEN_FILES}\n")

    def start(self):
        self.machine.boot("--capability=all", "--system-call-filter=add_key keyctl bpf", f"--bind-ro={self.toolchain}:/toolchain")
        # systemd-nspawn leaves the controllers of cgroup v1 read-only.
        self.machine.output("for path in /sys/fs/cgroup/*/; do mountpoint -q $path && mount -o remount,bind,rw $path; done || true")
        self.machine.output("apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "
                            "ca-certificates curl docker.io docker-compose git iptables openssl python3")
        return self.machine.output("docker version -f 'Docker {{.Server.Version}}'; docker-compose version --short")

    def import_debian(self, name, folder):
        """An image with the packages of a bare Debian."""
        bare_debian(folder)
        for path, text in SLIM.items():
            with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
                file.write(text)
        left_out = ["./var/cache/apt/*", "./var/lib/apt/lists/*", *(f"./usr/share/{name}/*" for name in ("doc", "man", "locale"))]
        tar = subprocess.Popen(["tar", "-C", folder, "-c", *(f"--exclude={path}" for path in left_out), "."],
                               stdout=subprocess.PIPE)
        self.machine.output(f"docker import --change 'CMD [\"bash\"]' - {name}", tar.stdout)
        limit = self.machine.output(f"docker run --rm {name} sh -c 'ulimit -Hn'")
        assert (tar.wait(), limit) == (0, str(OPEN_FILES)), f"{limit} open files"
        return f"{name}, from debootstrap; its processes may open {limit} files"

    def build_base(self, name, target, debian):
        self.machine.output(f"cd receiptd && DOCKER_BUILDKIT=1 docker build -q --build-arg DEBIAN={debian} --target {target} "
                            f"-t {name} {BASES}")
        if target == "swift":
            self._add_toolchain(name)
        return name

    def _add_toolchain(self, name):
        """Adds the toolchain, and SwiftPM's clones of the dependencies in place of their addresses."""
        clones, settings = f"{self.machine.folder}/root/clones", ""
        for path in sorted(pathlib.Path(".build/repositories").iterdir()):
            address = subprocess.run(["git", "-C", path, "config", "remote.origin.url"], check=True, capture_output=True,
                                     text=True).stdout.strip()
            shutil.copytree(path, f"{clones}/clones/{path.name}")
            settings += f'[url "/clones/{path.name}"]\n\tinsteadOf = {address}\n'
        os.makedirs(f"{clones}/etc")
        with open(f"{clones}/etc/gitconfig", "w", encoding="utf-8") as file:
            file.write(settings)
        unused = " ".join(f"--exclude='{path}'" for path in UNUSED_TOOLS)
        self.machine.output(f"""
            set -o pipefail
            docker create --name toolchain {name} bash
            tar -C /toolchain -c {unused} usr | docker cp - toolchain:/
            tar -C clones -c . | docker cp - toolchain:/
            docker commit toolchain {name}
            docker rm toolchain""")

    def try_compose(self, monitoring):
        # The scripts ask for `swift`, which only the image of the build uses.
        status = self.machine.show(f"cd receiptd; PATH=$PATH:/toolchain/usr/bin TRY_COMPOSE_MONITORING='{' '.join(monitoring)}' "
                                   "scripts/harness/try-compose")
        if status != 0:
            sys.exit("scripts/harness/check-image: try-compose failed")

    def stop(self):
        if self.machine.leader is not None:
            # The groups of cgroup v1 are the host's.
            self.machine.show("systemctl stop docker.socket docker containerd 2>/dev/null || true; "
                              "find /sys/fs/cgroup/*/docker -depth -type d -exec rmdir {} ';' 2>/dev/null || true")
        self.machine.stop()


def named_images():
    """The images that the two files name, and the services of docker-compose.yml by image."""
    with open("Dockerfile", encoding="utf-8") as file:
        images = re.findall(r"^FROM (\S+:\S+)", file.read(), re.M)
    with open("docker-compose.yml", encoding="utf-8") as file:
        services = {image: service for service, image in re.findall(r"^  (\w+):\n    image: (\S+:\S+)$", file.read(), re.M)}
    return [*images, *services], services


def main():
    # Removes the machine on SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    images, services = named_images()
    debian, = [image for image in images if image.startswith("debian:")]
    unknown = [image for image in images if image != debian and image.split(":")[0] not in TARGETS]
    if unknown:
        sys.exit(f"scripts/harness/check-image: {', '.join(unknown)}: add a target to {BASES}/Dockerfile and its name to TARGETS")
    work = tempfile.mkdtemp(prefix="receiptd-image-", dir="/var/tmp")
    base = os.environ.get("TRY_INSTALL_BASE", f"{work}/base")
    begin, engine = time.monotonic(), None
    try:
        say("A fresh Debian 12 with its container engine")
        engine = Engine(work, base)
        subprocess.run(["git", "clone", "-q", ".", f"{engine.machine.folder}/root/receiptd"], check=True)
        print(engine.start(), flush=True)
        say("The images that the files name")
        print(engine.import_debian(debian, f"{base}-slim"), flush=True)
        monitoring = []
        for image in images:
            target = TARGETS.get(image.split(":")[0])
            if target:
                print(engine.build_base(image, target, debian), flush=True)
                if image.startswith("prom/"):
                    monitoring.append(services[image])
            elif image != debian:
                print(f"{image} is not in Debian: {services[image]} does not start", flush=True)
        engine.try_compose(monitoring)
    finally:
        if engine is not None:
            engine.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(f"the image works, {(time.monotonic() - begin) / 60:.0f} min")


main()
