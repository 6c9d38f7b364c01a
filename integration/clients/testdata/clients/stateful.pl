# Transactions, a blocking pop, a subscription and a script with Perl's Redis through lockproxy:
# perl stateful.pl HOST PORT. It has no cluster mode.
use strict;
use warnings;
use Digest::SHA 'sha1_hex';
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
sub connected { return Redis->new(server => "$host:$port") }

# beside runs something in a process of its own.
sub beside {
    my ($what) = @_;
    my $pid = fork;
    if (!$pid) { select undef, undef, undef, 0.05; $what->(connected()); require POSIX; POSIX::_exit(0) }
    return $pid;
}

my $r = connected();
my $k = "{pl$port-$$}:";
$r->multi;
$r->set("${k}n", 1);
$r->incr("${k}n");
check([$r->exec], ['OK', 2]);
$r->watch("${k}n");
check(scalar connected()->incr("${k}n"), 3);
$r->multi;
$r->incr("${k}n");
check(scalar $r->exec, undef);
$r->watch("${k}n");
$r->multi;
$r->incr("${k}n");
check([$r->exec], [4]);

my $pusher = beside(sub { $_[0]->rpush("${k}l", 'x') });
check([$r->blpop("${k}none", "${k}l", 120)], ["${k}l", 'x']);
waitpid $pusher, 0;
check(scalar $r->blpop("${k}l", 1), undef);

my $listener = connected();
my @heard;
$listener->subscribe("${k}channel", sub { push @heard, $_[0] });
my $publisher = beside(sub { $_[0]->publish("${k}channel", 'one') });
$listener->wait_for_messages(1) until @heard;
waitpid $publisher, 0;
check(\@heard, ['one']);

# EVALSHA of a script that nobody has, and EVAL when that is said.
my $text = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- $k";
check(eval { $r->evalsha(sha1_hex($text), 1, "${k}n", 10) }, undef);
die $@ unless $@ =~ /NOSCRIPT/;
check(scalar $r->eval($text, 1, "${k}n", 10), 14);
check(scalar $r->evalsha(sha1_hex($text), 1, "${k}n", 10), 24);
print "ok\n";
