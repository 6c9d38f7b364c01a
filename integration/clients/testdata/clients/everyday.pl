# Everyday use of Perl's Redis through lockproxy: perl everyday.pl HOST PORT.
use strict;
use warnings;
use Redis;

sub show {
    my ($x) = @_;
    return !defined $x ? 'undef' : ref $x eq 'ARRAY' ? '[' . join(',', map { show($_) } @$x) . ']' : "'$x'";
}

sub check {
    my ($got, $want) = @_;
    die 'got ' . show($got) . ', want ' . show($want) . "\n" unless show($got) eq show($want);
}

my ($host, $port) = @ARGV;
my $r = Redis->new(server => "$host:$port");
check(scalar $r->ping, 'PONG');
check(scalar $r->set('pl:k' => 'v'), 'OK');
check(scalar $r->get('pl:k'), 'v');
check(scalar $r->get('pl:none'), undef);
check(scalar $r->mset('pl:a' => 1, 'pl:b' => 2, 'pl:c' => 3), 'OK');
check([$r->mget('pl:a', 'pl:b', 'pl:none', 'pl:c')], [1, 2, undef, 3]);
check(scalar $r->incr('pl:n'), 1);
check(scalar $r->hset('pl:h', f => 'v', g => 'w'), 2);
check([$r->hgetall('pl:h')], ['f', 'v', 'g', 'w']);
check(scalar $r->rpush('pl:l', 'a', 'b'), 2);
check([$r->lrange('pl:l', 0, -1)], ['a', 'b']);
check(scalar $r->zadd('pl:z', 1, 'one'), 1);
check([sort $r->keys('pl:?')], ['pl:a', 'pl:b', 'pl:c', 'pl:h', 'pl:k', 'pl:l', 'pl:n', 'pl:z']);
check(scalar $r->del('pl:a', 'pl:b', 'pl:c'), 3);
die "INFO without redis_version\n" unless exists $r->info->{redis_version};
my @got;
for my $i (0 .. 199) {
    $r->set("pl:p$i", $i, sub { });
    $r->get("pl:p$i", sub { push @got, $_[0] });
}
$r->wait_all_responses;
check(\@got, [0 .. 199]);

my ($token, $fence, $ttl, $count) = $r->lock('pl:job', 'PX', 100000);
check([$fence > 0 ? 1 : 0, $ttl > 0 && $ttl <= 100000 ? 1 : 0, $count], [1, 1, 1]);
check(scalar $r->lock('pl:job'), undef);
die "RENEW\n" unless $r->renew('pl:job', $token, 'PX', 200000) > 100000;
check(scalar $r->unlock('pl:job', $token), 1);
check(scalar $r->unlock('pl:job', $token), undef);
print "ok\n";
