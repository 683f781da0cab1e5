"""Locks of a Leasehold server, with nothing but Python's standard library. See docs/server.md."""
import json, secrets, threading, time, urllib.error, urllib.parse, urllib.request


class Problem(Exception):
    """What the server refused. `code` is HELD, TIMEOUT, NOT_HELD, INVALID …"""
    def __init__(self, problem):
        super().__init__(f"{problem['code']}: {problem['detail']}")
        self.code, self.status = problem["code"], problem["status"]


class Lock:
    """`with Lock(url, "orders/42") as lock:` holds it. Write with `lock.fence`, and stop once `lock.held` is false."""
    def __init__(self, url, name, namespace="default", ttl=30, wait=20, token=None, **more):
        self.url = f"{url}/v1/locks/{namespace}/{urllib.parse.quote(name, safe='')}"
        self.ttl, self.wait, self.more, self.over = ttl, wait, more, threading.Event()
        # Our own id makes every call safe to send again: after a lost answer, and to another server.
        self.headers = {"Leasehold-Id": secrets.token_hex(16), **({"Authorization": f"Bearer {token}"} if token else {})}

    def call(self, method, path="", timeout=10, **parameters):
        url = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        for attempt in range(5):
            try:
                self.sent = time.monotonic()
                with urllib.request.urlopen(urllib.request.Request(url, None, self.headers, method=method), timeout=timeout) as answer:
                    return json.load(answer)
            except OSError as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.headers.get_content_type() == "application/problem+json"
                problem = Problem(json.load(error)) if refused else error
                if attempt == 4 or refused and problem.status < 500: raise problem from None
                time.sleep(0.2 * 2**attempt)

    def keep(self, lease):
        # Counted from before the call was sent: the lease lasts at least that long, however slow the answer was.
        self.fence, self.until = lease["fence"], self.sent + (lease["waitedMs"] + lease["expiresInMs"]) / 1000

    def renew(self):
        while not self.over.wait(self.ttl / 3):
            try: self.keep(self.call("POST", "/renew", timeout=self.ttl / 3, ttl=f"{self.ttl}s"))
            except OSError: pass  # Tried again until the lease is over.
            except Problem as problem:
                if problem.code in ("NOT_HELD", "LOST"): self.until = 0

    @property
    def held(self): return not self.over.is_set() and time.monotonic() < self.until

    def __enter__(self):
        self.keep(self.call("PUT", timeout=self.wait + 10, ttl=f"{self.ttl}s", wait=f"{self.wait}s", **self.more))
        threading.Thread(target=self.renew, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.call("DELETE")
