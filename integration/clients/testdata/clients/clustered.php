<?php
// Everyday use of phpredis's cluster client through lockproxy: php clustered.php HOST PORT.
function check($got, $want) {
    if ($got !== $want) {
        throw new Exception('got ' . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

foreach ([RedisCluster::FAILOVER_NONE, RedisCluster::FAILOVER_DISTRIBUTE] as $failover) {
    $r = new RedisCluster(null, [$argv[1] . ':' . $argv[2]], 120, 120);
    $r->setOption(RedisCluster::OPT_SLAVE_FAILOVER, $failover);
    $k = "phpc{$argv[2]}$failover:";
    check(count($r->_masters()) > 0, true);
    for ($i = 0; $i < 100; $i++) {
        check($r->set("$k$i", $i), true);
        check($r->get("$k$i"), (string) $i);
    }
    check($r->mset(["{$k}a" => '1', "{$k}b" => '2']), true);
    check($r->mget(["{$k}a", "{$k}none", "{$k}b"]), ['1', false, '2']);
    check($r->hMSet("{$k}h", ['f' => 'v', 'g' => 'w']), true);
    check($r->hGetAll("{$k}h"), ['f' => 'v', 'g' => 'w']);
    check($r->eval('return ARGV[1]', ["{$k}a", 'x'], 1), 'x');
    check($r->del("{$k}a", "{$k}b"), 2);

    [$token, $fence, $ttl, $count] = $r->rawCommand("{$k}job", 'LOCK', "{$k}job", 'PX', '100000');
    check([$fence > 0, $ttl > 0 && $ttl <= 100000, $count], [true, true, 1]);
    check($r->rawCommand("{$k}job", 'LOCK', "{$k}job"), null);
    check($r->rawCommand("{$k}job", 'UNLOCK', "{$k}job", $token), 1);
}
echo "ok\n";
