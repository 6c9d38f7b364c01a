# The recipes of docs/recipes.md that guard something outside Redis by the fence: the SQL in PostgreSQL, and the
# Python with a store that has conditional writes.
import re
import subprocess
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


# Two clients hold the lock one after the other; the first is paused beyond its lease. What comes first of all
# takes longer than such a lease on a busy machine.
proxy.execute_command("LOCK", "account:0", "TOKEN", "first")
_, first, _, _ = proxy.execute_command("LOCK", "account:1", "TOKEN", "first", "PX", 1000)
time.sleep(1.2)
_, second, _, _ = proxy.execute_command("LOCK", "account:1", "TOKEN", "second", "WAIT", 120000)
assert second > first



class Session:
    """One psql, which stays connected."""

    def __init__(self):
        self.psql = subprocess.Popen(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, sql):
        self.psql.stdin.write(sql + "\n\\echo end\n")
        self.psql.stdin.flush()

    def answer(self):
        """What the SQL returned, line by line."""
        lines = list(iter(lambda: self.psql.stdout.readline().strip(), "end"))
        assert self.psql.poll() is None
        return lines

    def run(self, sql):
        self.send(sql)
        return self.answer()

    def send_write(self, balance, fence):
        self.send(f"\\set id 1\n\\set balance {balance}\n\\set fence {fence}\n{update}\n\\echo :ROW_COUNT")

    def write(self, balance, fence):
        """How many rows have changed."""
        self.send_write(balance, fence)
        return int(self.answer()[0])


db, other = Session(), Session()
db.run(create)
db.run("INSERT INTO account (id, balance) VALUES (1, 0);")
assert db.write(10, first) == 1
assert db.write(20, second) == 1
assert db.write(21, second) == 1  # the same holder again
assert db.write(30, first) == 0  # late
assert db.run("SELECT balance FROM account;") == ["21"]

# The late writer comes while the other one is still writing: it waits for that, and is refused.
db.run("UPDATE account SET balance = 0, fence = 0; BEGIN;")
assert db.write(40, second) == 1
other.send_write(50, first)
watcher = Session()
while watcher.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock';") == ["0"]:
    time.sleep(0.01)
db.run("COMMIT;")
assert other.answer() == ["0"]
assert db.run("SELECT balance FROM account;") == ["40"]

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
