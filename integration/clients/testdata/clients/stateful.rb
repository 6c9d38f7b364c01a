# Transactions, a blocking pop, a subscription and a script with redis-rb through lockproxy:
# ruby stateful.rb HOST PORT single|cluster.
require "redis"
require "digest"

def check(got, want)
  raise "got #{got.inspect}, want #{want.inspect}" unless got == want
end

host, port, clustered = ARGV[0], ARGV[1].to_i, ARGV[2] == "cluster"
connect = -> { clustered ? Redis.new(cluster: [{ host: host, port: port }], timeout: 120) : Redis.new(host: host, port: port, timeout: 120) }
r = connect.call
tag = "{rb#{port}-#{$$}}:"

# The cluster client of this library has no transactions of its own: they are for a client of one node.
node = clustered ? Redis.new(host: host, port: port, timeout: 120) : r
check node.multi { |m| m.set("#{tag}n", 1); m.incr("#{tag}n"); m.get("#{tag}n") }, ["OK", 2, "2"]
node.watch("#{tag}n") do
  check connect.call.incr("#{tag}n"), 3
  check node.multi { |m| m.incr("#{tag}n") }, nil
end
node.watch("#{tag}n") { check node.multi { |m| m.incr("#{tag}n") }, [4] }

waiter = Thread.new { connect.call.blpop("#{tag}none", "#{tag}l", timeout: 120) }
sleep 0.05
check r.rpush("#{tag}l", "x"), 1
check waiter.value, ["#{tag}l", "x"]
check r.blpop("#{tag}l", timeout: 1), nil

heard = catch(:heard) do
  connect.call.subscribe("#{tag}channel") do |on|
    on.subscribe { |channel, _| r.publish(channel, "one") }
    on.message { |*message| throw :heard, message }
  end
end
check heard, ["#{tag}channel", "one"]

# EVALSHA of a script that nobody has, and EVAL when that is said.
text = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- #{tag}"
fall_back = lambda do
  r.evalsha(Digest::SHA1.hexdigest(text), keys: ["#{tag}n"], argv: [10])
rescue Redis::CommandError => e
  raise unless e.message.start_with?("NOSCRIPT")
  -r.eval(text, keys: ["#{tag}n"], argv: [10])
end
check fall_back.call, -14
check fall_back.call, 24
puts "ok"
