<?php
// Everyday use of phpredis through lockproxy: php everyday.php HOST PORT.
function check($got, $want) {
    if ($got !== $want) {
        throw new Exception('got ' . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

function sorted($list) {
    sort($list);
    return $list;
}

$r = new Redis();
check($r->connect($argv[1], (int) $argv[2], 120, null, 0, 120), true);
check($r->ping('hello'), 'hello');
check($r->set('php:k', 'v'), true);
check($r->get('php:k'), 'v');
check($r->get('php:none'), false);
check($r->mset(['php:a' => '1', 'php:b' => '2', 'php:c' => '3']), true);
check($r->mget(['php:a', 'php:b', 'php:none', 'php:c']), ['1', '2', false, '3']);
check($r->incr('php:n'), 1);
check($r->hMSet('php:h', ['f' => 'v', 'g' => 'w']), true);
check($r->hGetAll('php:h'), ['f' => 'v', 'g' => 'w']);
check($r->rPush('php:l', 'a', 'b'), 2);
check($r->lRange('php:l', 0, -1), ['a', 'b']);
check($r->sAdd('php:s', 'x', 'y'), 2);
check(sorted($r->sMembers('php:s')), ['x', 'y']);
check($r->zAdd('php:z', 1, 'one', 2.5, 'two'), 2);
check($r->zRange('php:z', 0, -1, true), ['one' => 1.0, 'two' => 2.5]);
check($r->eval('return ARGV[1]', ['php:k', 'x'], 1), 'x');
check($r->del('php:a', 'php:b', 'php:c'), 3);
check(isset($r->info()['redis_version']), true);
$r->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$found = [];
$cursor = null;
while ($keys = $r->scan($cursor, 'php:?')) {
    $found = array_merge($found, $keys);
}
check(sorted($found), ['php:h', 'php:k', 'php:l', 'php:n', 'php:s', 'php:z']);
$pipe = $r->pipeline();
for ($i = 0; $i < 200; $i++) {
    $pipe->set("php:p$i", "$i");
    $pipe->get("php:p$i");
}
foreach ($pipe->exec() as $i => $got) {
    check($got, $i % 2 ? (string) intdiv($i, 2) : true);
}

[$token, $fence, $ttl, $count] = $r->rawCommand('LOCK', 'php:job', 'PX', '100000');
check([$fence > 0, $ttl > 0 && $ttl <= 100000, $count], [true, true, 1]);
check($r->rawCommand('LOCK', 'php:job'), false);
check($r->getLastError(), null);
check($r->rawCommand('RENEW', 'php:job', $token, 'PX', '200000') > 100000, true);
check($r->rawCommand('UNLOCK', 'php:job', $token), 1);
check($r->rawCommand('UNLOCK', 'php:job', $token), false);
check($r->getLastError(), null);
echo "ok\n";
