"""Everyday use of redis-py through lockproxy: python3 everyday.py HOST PORT."""
import sys
import threading

import redis


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


host, port = sys.argv[1], int(sys.argv[2])
r = redis.Redis(host=host, port=port, decode_responses=True)
check(r.ping(), True)
check(r.set("py:k", "v"), True)
check(r.get("py:k"), "v")
check(r.get("py:none"), None)
check(r.mset({"py:a": "1", "py:b": "2", "py:c": "3"}), True)
check(r.mget("py:a", "py:b", "py:none", "py:c"), ["1", "2", None, "3"])
check(r.incr("py:n"), 1)
check(r.hset("py:h", mapping={"f": "v", "g": "w"}), 2)
check(r.hgetall("py:h"), {"f": "v", "g": "w"})
check(r.rpush("py:l", "a", "b"), 2)
check(r.lrange("py:l", 0, -1), ["a", "b"])
check(r.sadd("py:s", "x", "y"), 2)
check(r.smembers("py:s"), {"x", "y"})
check(r.zadd("py:z", {"one": 1, "two": 2.5}), 2)
check(r.zrange("py:z", 0, -1, withscores=True), [("one", 1.0), ("two", 2.5)])
check(r.xadd("py:st", {"f": "v"}, id="1-1"), "1-1")
check(r.expire("py:k", 100), True)
check(0 < r.ttl("py:k") <= 100, True)
check(sorted(r.scan_iter("py:?")), ["py:a", "py:b", "py:c", "py:h", "py:k", "py:l", "py:n", "py:s", "py:z"])
check(r.register_script("return redis.call('GET', KEYS[1])")(keys=["py:a"]), "1")
check(r.delete("py:a", "py:b", "py:c"), 3)
check("redis_version" in r.info(), True)

pipe = r.pipeline(transaction=False)
for i in range(500):
    pipe.set(f"py:p{i}", i)
    pipe.get(f"py:p{i}")
check(pipe.execute()[1::2], [str(i) for i in range(500)])

raw = redis.Redis(host=host, port=port)
check(raw.set("py:bin", bytes(range(256)) * 300), True)
check(raw.get("py:bin"), bytes(range(256)) * 300)

token, fence, ttl, count = r.execute_command("LOCK", "py:job", "PX", 100000)
check((fence > 0, 0 < ttl <= 100000, count), (True, True, 1))
check(r.execute_command("LOCK", "py:job"), None)
check(r.execute_command("RENEW", "py:job", token, "PX", 200000) > 100000, True)

granted = []
waiter = threading.Thread(target=lambda: granted.append(
    redis.Redis(host=host, port=port, decode_responses=True).execute_command("LOCK", "py:job", "WAIT", 100000)))
waiter.start()
check(r.execute_command("UNLOCK", "py:job", token), 1)
waiter.join()
check(granted[0][1] > fence, True)
check(r.execute_command("UNLOCK", "py:job", granted[0][0]), 1)
check(r.execute_command("UNLOCK", "py:job", token), None)
try:
    r.execute_command("LOCK", "py:job", "PX", "no")
    raise AssertionError("no error for PX no")
except redis.ResponseError as error:
    check("LOCK key" in str(error), True)
print("ok")
