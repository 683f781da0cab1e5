# One worker of a test: counts in a file under a lock, by examples/leasehold_client.py.
#
#   python3 python-worker.py URL NAME FILE TURNS TTL
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
from leasehold_client import Lock

url, name, file, turns, ttl = sys.argv[1:]
counter = pathlib.Path(file)
for _ in range(int(turns)):
    with Lock(url, name, ttl=float(ttl), wait=50) as lock:
        assert lock.held
        # Read, then written: two holders at once would lose a count.
        count = int(counter.read_text() or "0")
        counter.write_text(str(count + 1))
        print(lock.fence, flush=True)
print("done", flush=True)
