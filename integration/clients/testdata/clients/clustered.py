"""Everyday use of redis-py's cluster client through lockproxy: python3 clustered.py HOST PORT."""
import sys

from redis.cluster import RedisCluster


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


host, port = sys.argv[1], int(sys.argv[2])
for options in {}, {"read_from_replicas": True}:
    r = RedisCluster(host=host, port=port, decode_responses=True, **options)
    k = f"pyc{port}{len(options)}:"
    check(port in [node.port for node in r.get_nodes()], True)
    for i in range(100):
        check(r.set(f"{k}{i}", i), True)
        check(r.get(f"{k}{i}"), str(i))
    check(r.mset_nonatomic({f"{k}a": "1", f"{k}b": "2"}), [True, True])
    check(r.mget_nonatomic(f"{k}a", f"{k}none", f"{k}b"), ["1", None, "2"])
    check(r.mget(f"{{{k}}}a", f"{{{k}}}b"), [None, None])
    check(r.hset(f"{k}h", mapping={"f": "v", "g": "w"}), 2)
    check(r.hgetall(f"{k}h"), {"f": "v", "g": "w"})
    check(r.eval("return {KEYS[1], ARGV[1]}", 1, f"{k}a", "x"), [f"{k}a", "x"])
    pipe = r.pipeline()
    for i in range(200):
        pipe.set(f"{k}p{i}", i)
        pipe.get(f"{k}p{i}")
    check(pipe.execute()[1::2], [str(i) for i in range(200)])
    check(r.delete(f"{k}a", f"{k}b"), 2)
    check(r.cluster_keyslot("foo"), 12182)
    check(r.keyslot("foo"), 12182)

    token, fence, ttl, count = r.execute_command("LOCK", f"{k}job", "PX", 100000)
    check((fence > 0, 0 < ttl <= 100000, count), (True, True, 1))
    check(r.execute_command("LOCK", f"{k}job"), None)
    check(r.execute_command("UNLOCK", f"{k}job", token), 1)
print("ok")
