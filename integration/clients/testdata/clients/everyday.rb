# Everyday use of redis-rb through lockproxy: ruby everyday.rb HOST PORT.
require "redis"

def check(got, want)
  raise "got #{got.inspect}, want #{want.inspect}" unless got == want
end

host, port = ARGV[0], ARGV[1].to_i
r = Redis.new(host: host, port: port, timeout: 120)
check r.ping, "PONG"
check r.set("rb:k", "v"), "OK"
check r.get("rb:k"), "v"
check r.get("rb:none"), nil
check r.mset("rb:a", 1, "rb:b", 2, "rb:c", 3), "OK"
check r.mget("rb:a", "rb:b", "rb:none", "rb:c"), ["1", "2", nil, "3"]
check r.incr("rb:n"), 1
check r.hset("rb:h", "f", "v", "g", "w"), 2
check r.hgetall("rb:h"), { "f" => "v", "g" => "w" }
check r.rpush("rb:l", %w[a b]), 2
check r.lrange("rb:l", 0, -1), %w[a b]
check r.sadd("rb:s", %w[x y]), 2
check r.smembers("rb:s").sort, %w[x y]
check r.zadd("rb:z", [[1, "one"], [2.5, "two"]]), 2
check r.zrange("rb:z", 0, -1, with_scores: true), [["one", 1.0], ["two", 2.5]]
check r.scan_each(match: "rb:?").to_a.sort, %w[rb:a rb:b rb:c rb:h rb:k rb:l rb:n rb:s rb:z]
check r.eval("return ARGV[1]", keys: ["rb:k"], argv: ["x"]), "x"
check r.del("rb:a", "rb:b", "rb:c"), 3
check r.info.key?("redis_version"), true
got = r.pipelined { |p| 200.times { |i| p.set("rb:p#{i}", i); p.get("rb:p#{i}") } }
check got.each_slice(2).map(&:last), (0...200).map(&:to_s)

token, fence, ttl, count = r.call("LOCK", "rb:job", "PX", 10_000)
check [fence.positive?, (1..10_000).cover?(ttl), count], [true, true, 1]
check r.call("LOCK", "rb:job"), nil
check r.call("RENEW", "rb:job", token, "PX", 20_000) > 10_000, true
waiter = Thread.new { Redis.new(host: host, port: port, timeout: 120).call("LOCK", "rb:job", "WAIT", 10_000) }
sleep 0.05
check r.call("UNLOCK", "rb:job", token), 1
check waiter.value[1] > fence, true
check r.call("UNLOCK", "rb:job", waiter.value[0]), 1
check r.call("UNLOCK", "rb:job", token), nil
puts "ok"
