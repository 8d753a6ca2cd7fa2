"""What the measurements over a real kube-apiserver have in common."""
import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import shlex
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT.parent / "shared" / "tools"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "pilothouse"
SERVER = f"{PROGRAM} serve --kubeconfig {{kubeconfig}} --write --grpc-addr 127.0.0.1:{{grpc}} --http-addr 127.0.0.1:{{http}}"


class Api:
    """A connection to the API of a kubeconfig as kubetest writes it."""

    def __init__(self, kubeconfig):
        text = kubeconfig.read_text()

        def field(name):
            return re.search(rf"{name}: (\S+)", text)[1]

        self.host = field("server").removeprefix("https://")
        self.token = field("token")
        self.context = ssl.create_default_context(cadata=base64.b64decode(field("certificate-authority-data")).decode())
        self.connection = http.client.HTTPSConnection(self.host, context=self.context)

    def call(self, method, path, body, kind="application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        self.connection.request(method, path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300 and answer.status != 409:
            sys.exit(f"{method} {path}: {answer.status} {text.decode()}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def kubetest(work, *flags):
    """A kube-apiserver, with further flags, and etcd; gives its kubeconfig."""
    subprocess.run([TOOLS / "backends/bin/kubetest.sh", "install"], check=True)
    program = pathlib.Path(os.environ.get("BACKENDS_CACHE", CACHE / "mesh-test-backends")) / "kubetest"
    command = [program, "--dir", work / "api", "--controllers", "", "--", "--service-cluster-ip-range=10.64.0.0/10", *flags]
    with (work / "api.log").open("wb") as log:
        api = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        kubeconfig = work / "api" / "kubeconfig"
        while not kubeconfig.exists():
            if api.poll() is not None:
                sys.exit((work / "api.log").read_text())
            time.sleep(0.05)
        yield kubeconfig
    finally:
        api.terminate()
        api.wait()


@contextlib.contextmanager
def server(command, work, kubeconfig):
    """A control plane; gives its process and its ports."""
    words = {"kubeconfig": kubeconfig, "grpc": free_port(), "http": free_port()}
    command = [re.sub(r"\{(kubeconfig|grpc|http)\}", lambda m: str(words[m[1]]), w) for w in shlex.split(command)]
    with (work / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "XDS_AUTH_PLAINTEXT": "true"})
    try:
        yield process, words["grpc"], words["http"]
    finally:
        process.terminate()
        process.wait()


def make_all(kubeconfig, batches):
    """Eight connections make what there is, batch by batch."""
    local = threading.local()

    def make(what):
        if not hasattr(local, "api"):
            local.api = Api(kubeconfig)
        local.api.call("POST", *what)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for batch in batches:
            list(pool.map(make, batch))


def wait_ready(server, port):
    start = time.monotonic()
    while time.monotonic() - start < 60:
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1).status == 200:
                return
        except OSError:
            pass
        if server.poll() is not None:
            sys.exit("the server ended")
        time.sleep(0.01)
    sys.exit("the server is not ready after a minute")
