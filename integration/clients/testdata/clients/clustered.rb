# Everyday use of redis-rb's cluster mode through lockproxy: ruby clustered.rb HOST PORT.
require "redis"

def check(got, want)
  raise "got #{got.inspect}, want #{want.inspect}" unless got == want
end

host, port = ARGV[0], ARGV[1].to_i
[false, true].each do |replica|
  r = Redis.new(cluster: [{ host: host, port: port }], timeout: 120, replica: replica)
  k = "rbc#{port}#{replica}:"
  100.times do |i|
    check r.set("#{k}#{i}", i), "OK"
    check r.get("#{k}#{i}"), i.to_s
  end
  check r.mset("{#{k}}a", 1, "{#{k}}b", 2), "OK"
  check r.mget("{#{k}}a", "{#{k}}none", "{#{k}}b"), ["1", nil, "2"]
  check r.hset("#{k}h", "f", "v", "g", "w"), 2
  check r.hgetall("#{k}h"), { "f" => "v", "g" => "w" }
  check r.eval("return ARGV[1]", keys: ["#{k}a"], argv: ["x"]), "x"
  got = r.pipelined { |p| 200.times { |i| p.set("{#{k}}p#{i}", i); p.get("{#{k}}p#{i}") } }
  check got.each_slice(2).map(&:last), (0...200).map(&:to_s)

  token, fence, ttl, count = r.call("LOCK", "#{k}job", "PX", 10_000)
  check [fence.positive?, (1..10_000).cover?(ttl), count], [true, true, 1]
  check r.call("LOCK", "#{k}job"), nil
  check r.call("UNLOCK", "#{k}job", token), 1
end
puts "ok"
