package scripts_test

// The transitions of semaphores, as those of locks in transitions.
var permits = []struct{ name, text string }{
	{"as many permits as were named, each with its own lease and fence; R5 R28", `
		acquire a i1 p3 300 -> [a F1 ~300 1]
		acquire b i2 p3 1000 -> [b F2 ~1000 1]
		ttl -> ~1000
		acquire c i3 p3 1000 -> [c F3 ~1000 1]
		acquire d i4 p3 1000 -> nil
		release b u1 -> 1
		release b u1 -> 1
		release b u2 -> nil
		acquire d i5 p3 2000 -> [d F4 ~2000 1]
		acquire e i6 p3 1000 -> nil
		sleep 320
		release a u3 -> nil
		acquire e i7 p3 1000 -> [e F5 ~1000 1]
		acquire a i8 p3 1000 -> nil
		renew d 5000 -> ~5000
		ttl -> ~5000
		release c u4 -> 1
		release d u5 -> 1
		release e u6 -> 1
		exists -> 0`},
	{"the same token, and a request sent again; R15 R33", `
		acquire a i1 p2 500 -> [a F1 ~500 1]
		acquire a i1 p2 1000 -> [a F1 ~1000 1]
		acquire a i2 p2 100 -> [a F1 ~1000 1]
		acquire b i3 p2 100 -> [b F2 ~100 1]
		cancel a i2 -> 1
		cancel a i1 -> 1
		acquire c i4 p2 1000 -> [c F3 ~1000 1]
		acquire d i5 p2 1000 -> nil
		cancel a i1 -> 0`},
	{"another number, or another kind of lock, only once nobody holds or waits", `
		acquire a i1 p2 300 -> [a F1 ~300 1]
		acquire b i2 p3 1000 -> -PERMITS
		acquire a i3 p3 1000 -> -PERMITS
		acquire b i4 p3 1000 P1 1000 -> -PERMITS
		acquire b i5 w 1000 -> -LOCKTYPE
		acquire b i6 r 1000 P1 1000 -> -LOCKTYPE
		acquire a i7 w 1000 -> -LOCKTYPE
		redis HGET lock:{job} v -> permits 2
		sleep 320
		acquire a i8 p1 1000 -> [a F2 ~1000 1]
		acquire b i9 p1 300 P1 300 -> [1 ~1000 *]
		release a u1 -> 1
		acquire c ia p2 1000 -> -PERMITS
		cancel b i9 -> 1
		acquire c ib w 1000 -> [c F3 ~1000 1]
		acquire d ic p2 1000 -> -LOCKTYPE
		acquire c id p2 1000 P1 1000 -> -LOCKTYPE
		redis TYPE lock:{job} -> string
		release c u2 -> 1
		acquire c ie r 300 -> [c F4 ~300 1]
		acquire d if p2 1000 -> -LOCKTYPE
		sleep 320
		acquire d ig p2 1000 -> [d F5 ~1000 1]
		release d u3 -> 1
		exists -> 0`},
	{"a hash that nobody uses any more becomes a semaphore, or a lock again", `
		acquire a i1 w 300 -> [a F1 ~300 1]
		acquire b i2 w 300 P1 400 -> [1 ~300 i1 *]
		acquire c i3 p2 1000 -> -LOCKTYPE
		sleep 420
		exists -> 1
		acquire c i4 p2 100 -> [c F2 ~100 1]
		redis HGET lock:{job} v -> permits 2
		redis HEXISTS lock:{job} w -> 0
		acquire d i5 p2 1000 -> [d F3 ~1000 1]
		acquire e i6 p2 1000 -> nil
		break -> 1
		exists -> 0
		acquire c i7 p2 100 -> [c F4 ~100 1]
		acquire d i8 p2 100 P1 900 -> [d F5 ~100 1]
		acquire e i9 p2 100 P1 200 -> [1 ~100 *]
		sleep 220
		exists -> 1
		acquire e ia w 1000 -> [e F6 ~1000 1]
		redis HGET lock:{job} v -> 1
		acquire d ib r 1000 -> nil
		release e u1 -> 1
		exists -> 0`},
	{"first come, first served; a newcomer gets what nobody is to get; R9 R29", `
		acquire a i1 p2 5000 -> [a F1 ~5000 1]
		acquire b i2 p2 5000 -> [b F2 ~5000 1]
		acquire c i3 p2 5000 P1 5000 -> [1 ~5000 *]
		acquire d i4 p2 5000 P2 5000 -> [2 ~5000 *]
		release a u1 - P1 -> 1
		acquire e i5 p2 5000 -> nil
		acquire d i4 p2 5000 P2 5000 -> [2 ~500 i3]
		release b u2 - P1 -> 1
		acquire e i6 p2 5000 -> nil
		acquire c i3 p2 5000 P1 5000 -> [c F3 ~5000 1]
		acquire e i7 p2 5000 -> nil
		acquire d i4 p2 5000 P2 5000 -> [d F4 ~5000 1]
		release c u3 -> 1
		acquire e i8 p2 5000 -> [e F5 ~5000 1]`},
	{"several that become free at once are offered to as many, in any order", `
		acquire a i1 p3 5000 -> [a F1 ~5000 1]
		acquire b i2 p3 5000 -> [b F2 ~5000 1]
		acquire c i3 p3 5000 -> [c F3 ~5000 1]
		acquire d i4 p3 5000 P1 5000 -> [1 ~5000 *]
		acquire e i5 p3 5000 P1 5000 -> [2 ~5000 ]
		acquire f i6 p3 5000 P1 5000 -> [3 ~5000 ]
		acquire g i7 p3 5000 P1 5000 -> [4 ~5000 ]
		break -> 1
		acquire h i8 p3 5000 -> nil
		acquire f i6 p3 5000 P1 5000 -> [f F4 ~5000 1]
		acquire g i7 p3 5000 P1 5000 -> [4 ~500 i4]
		acquire d i4 p3 5000 P1 5000 -> [d F5 ~5000 1]
		acquire e i5 p3 5000 P1 5000 -> [e F6 ~5000 1]
		acquire g i7 p3 5000 P1 5000 -> [4 ~5000 ]
		cancel e i5 -> 1
		acquire g i7 p3 5000 P1 5000 -> [g F7 ~5000 1]`},
	{"the leases of all end at once, and each waiter may have one", `
		acquire a i1 p2 300 -> [a F1 ~300 1]
		acquire b i2 p2 300 -> [b F2 ~300 1]
		acquire c i3 p2 5000 P1 5000 -> [1 ~300 *]
		acquire d i4 p2 5000 P1 5000 -> [2 ~300 ]
		acquire e i5 p2 5000 P1 5000 -> [3 ~300 ]
		sleep 320
		acquire d i4 p2 5000 P1 5000 -> [2 ~500 i3]
		acquire d i4 p2 5000 P1 5000 -> [d F3 ~5000 1]
		acquire e i5 p2 5000 P1 5000 -> [3 ~500 i3]
		acquire c i3 p2 5000 P1 5000 -> [c F4 ~5000 1]
		acquire e i5 p2 5000 P1 5000 -> [3 ~5000 ]`},
	{"a dead waiter holds the others up for half a second; R25", `
		acquire a i1 p1 5000 -> [a F1 ~5000 1]
		acquire b i2 p1 5000 P1 5000 -> [1 ~5000 *]
		acquire c i3 p1 5000 P2 5000 -> [2 ~5000 *]
		release a u1 -> 1
		acquire c i3 p1 5000 P2 5000 -> [2 ~500 i2]
		sleep 520
		acquire c i3 p1 5000 P2 5000 -> [c F2 ~5000 1]
		acquire b i2 p1 5000 P1 5000 -> [3 ~5000 *]`},
	{"a permit that is kept alive; R18", `
		acquire a i1 p1 500 - - - P9:1 -> [a F1 ~500 1]
		keep a 2000 P9:1 -> [~2000]
		keep a 9000 P8:1 -> [-1]
		acquire b i2 p1 1000 P1 5000 -> [1 ~500 *]
		detach a P9:1 -> 1
		acquire b i2 p1 1000 P1 5000 -> [b F2 ~1000 1]`},
	{"while the slot moves", `
		acquire a i1 p2 5000 -> [a F1 ~5000 1]
		acquire b i2 p2 5000 -> [b F2 ~5000 1]
		acquire c i3 p2 5000 P1 5000 -> [1 ~5000 *]
		alone release a u1 -> 1
		acquire c i3 p2 5000 P1 5000 -> [c F3 ~5000 1]
		alone release b u2 -> 1
		alone release c u3 -> 1
		redis HGET lock:{job} v -> permits 2
		acquire d i4 w 5000 -> [d F4 ~5000 1]
		redis HGET lock:{job} v -> 1`},
}
