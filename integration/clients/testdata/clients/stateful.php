<?php
// Transactions, a blocking pop, a subscription and a script with phpredis through lockproxy:
// php stateful.php HOST PORT single|cluster.
function check($got, $want) {
    if ($got !== $want) {
        throw new Exception('got ' . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

function connect() {
    global $argv;
    if ($argv[3] === 'cluster') {
        return new RedisCluster(null, [$argv[1] . ':' . $argv[2]], 120, 120);
    }
    $r = new Redis();
    check($r->connect($argv[1], (int) $argv[2], 120, null, 0, 120), true);
    return $r;
}

// another runs this file as a process of its own that only pushes or publishes.
function another($what) {
    global $argv, $k;
    return popen(implode(' ', array_map('escapeshellarg', [PHP_BINARY, ...array_slice($argv, 0, 4), $what, $k])), 'r');
}

$r = connect();
$k = $argv[5] ?? '{php' . getmypid() . "-$argv[2]}:";
if (isset($argv[4])) {
    usleep(50000);
    if ($argv[4] === 'push') {
        $r->rPush("{$k}l", 'x');
    }
    // Until the other one listens there is nobody to count.
    for ($i = 0; $argv[4] === 'publish' && $i < 200 && (int) $r->publish("{$k}channel", 'one') === 0; $i++) {
        usleep(20000);
    }
    exit;
}

$m = $r->multi();
$m->set("{$k}n", 1);
$m->incr("{$k}n");
$m->get("{$k}n");
check($m->exec(), [true, 2, '2']);
$r->watch("{$k}n");
check(connect()->incr("{$k}n"), 3);
$m = $r->multi();
$m->incr("{$k}n");
check($m->exec(), $argv[3] === 'cluster' ? [false] : false);
$r->watch("{$k}n");
$m = $r->multi();
$m->incr("{$k}n");
check($m->exec(), [4]);

$pusher = another('push');
check($r->blPop(["{$k}none", "{$k}l"], 10), ["{$k}l", 'x']);
pclose($pusher);
check($r->blPop(["{$k}l"], 1), []);

// This version of the library listens for as long as it is connected.
$heard = [];
$publisher = another('publish');
$listener = connect();
try {
    $listener->subscribe(["{$k}channel"], function ($listener, $channel, $message) use (&$heard) {
        $heard[] = [$channel, $message];
        $listener->close();
    });
} catch (RedisException | RedisClusterException $closed) {
}
check(array_slice($heard, 0, 1), [["{$k}channel", 'one']]);
pclose($publisher);

// EVALSHA of a script that nobody has, and EVAL when that is said.
$text = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- $k";
check($r->evalSha(sha1($text), ["{$k}n", 10], 1), false);
check(str_starts_with($r->getLastError(), 'NOSCRIPT'), true);
check($r->eval($text, ["{$k}n", 10], 1), 14);
check($r->evalSha(sha1($text), ["{$k}n", 10], 1), 24);
echo "ok\n";
