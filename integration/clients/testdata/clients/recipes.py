# The recipes of docs/recipes.md that guard something outside Redis by the fence: the SQL in a database, and the
# Python with a store that has conditional writes.
import re
import sqlite3
import sys
import time

import redis

proxy = redis.Redis(sys.argv[1], int(sys.argv[2]), decode_responses=True)
page = open("../../docs/recipes.md").read()
create, update = re.findall(r"```sql\n(.*?)\n```", page, re.S)
(code,) = re.findall(r"```python\n(.*?)\n```", page, re.S)


class LockLost(Exception):
    pass


scope = {"LockLost": LockLost}
exec(code, scope)
put_guarded = scope["put_guarded"]


class Store:
    """Objects with a version, which a write can demand."""

    def __init__(self):
        self.objects = {}
        self.between = lambda: None  # called between a head and the put behind it

    def head(self, key):
        version, metadata, _ = self.objects.get(key, (None, {"fence": "0"}, None))
        return version, int(metadata["fence"])

    def put(self, key, data, metadata, if_version):
        between, self.between = self.between, lambda: None
        between()
        if self.head(key)[0] != if_version:
            return False
        self.objects[key] = ((if_version or 0) + 1, metadata, data)
        return True


# Two clients hold the lock one after the other; the first is paused beyond its lease.
_, first, _, _ = proxy.execute_command("LOCK", "account:1", "TOKEN", "first", "PX", 50)
time.sleep(0.2)
_, second, _, _ = proxy.execute_command("LOCK", "account:1", "TOKEN", "second", "WAIT", 20000)
assert second > first

db = sqlite3.connect(":memory:")
db.execute(create)
db.execute("INSERT INTO account (id, balance) VALUES (1, 0)")


def write(balance, fence):
    return db.execute(update, {"id": 1, "balance": balance, "fence": fence}).rowcount


assert write(10, first) == 1
assert write(20, second) == 1
assert write(21, second) == 1  # the same holder again
assert write(30, first) == 0  # late
assert db.execute("SELECT balance FROM account").fetchone() == (21,)

store = Store()
put_guarded(store, "report", "of the first", first)
put_guarded(store, "report", "of the second", second)
try:
    put_guarded(store, "report", "late", first)
    raise SystemExit("a late write was not refused")
except LockLost:
    pass
# Somebody with a higher fence comes between the two requests.
store = Store()
store.between = lambda: put_guarded(store, "report", "of the second", second)
try:
    put_guarded(store, "report", "late", first)
    raise SystemExit("a write that was overtaken was not refused")
except LockLost:
    pass
assert store.objects["report"][2] == "of the second"
print("ok")
