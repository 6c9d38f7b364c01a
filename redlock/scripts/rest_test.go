package scripts_test

// Transitions of holds that go on after their release (ATLEAST). The last word of acquire is for how long.
var rests = []struct{ name, text string }{
	{"a hold that is released early is nobody's, and held; R23", `
		acquire a i1 w 2000 - - - - 800 -> [a F1 ~2000 1]
		redis TYPE lock:{job} -> hash
		release a u1 F1 -> 1
		release a u1 F1 -> 1
		release a u2 -> nil
		ttl -> ~800
		redis HGET lock:{job} o -> -
		acquire a i2 w 1000 -> nil
		acquire a i1 w 1000 -> nil
		acquire b i3 r 1000 -> nil
		renew a 1000 -> 0
		cancel a i1 -> 0
		sleep 850
		exists -> 0
		acquire b i4 w 1000 -> [b F2 ~1000 1]
		redis TYPE lock:{job} -> string`},
	{"a hold that is released late does not rest", `
		acquire a i1 w 2000 - - - - 200 -> [a F1 ~2000 1]
		sleep 250
		release a u1 -> 1
		exists -> 0`},
	{"only the last count rests; R16", `
		acquire a i1 w 2000 - - - - 1000 -> [a F1 ~2000 1]
		reenter a i2 w 2000 -> [a F1 ~2000 2]
		release a u1 -> 0
		acquire a i3 w 2000 -> [a F1 ~2000 1]
		release a u2 -> 1
		acquire a i4 w 2000 -> nil
		release a u1 -> 0`},
	{"the queue waits on, is told so, and is served at the end; R25", `
		acquire a i1 w 5000 - - - - 500 -> [a F1 ~5000 1]
		acquire b i2 w 1000 P1 9000 -> [1 ~5000 i1 *]
		release a u1 - P1 -> 1
		acquire b i2 w 1000 P1 9000 -> [1 ~500 i1]
		acquire c i3 w 1000 -> nil
		sleep 520
		acquire c i3 w 1000 -> nil
		acquire b i2 w 1000 P1 9000 -> [b F2 ~1000 1]
		release b u2 -> 1
		exists -> 0`},
	{"who is handed the lock rests too", `
		acquire a i1 w 5000 -> [a F1 ~5000 1]
		acquire b i2 w 2000 P1 9000 100 - 1000 -> [1 ~5000 i1 *]
		release a u1 - P1 -> [1 i2 F2 ~2000]
		release b u2 - P1 -> 1
		acquire a i3 w 1000 -> nil
		ttl -> ~1000`},
	{"what nobody was told of does not rest", `
		acquire a i1 w 2000 - - - - 1000 -> [a F1 ~2000 1]
		cancel a i1 -> 1
		exists -> 0`},
	{"a break ends a rest, and a hold that would have rested; R23", `
		break -> 0
		acquire a i1 w 2000 - - - - 1000 -> [a F1 ~2000 1]
		release a u1 -> 1
		break -> 1
		break -> 0
		acquire a i2 w 2000 - - - - 1000 -> [a F2 ~2000 1]
		break -> 1
		exists -> 0`},
	{"a break gives what rests to the first waiter", `
		acquire a i1 w 2000 - - - - 1000 -> [a F1 ~2000 1]
		release a u1 -> 1
		acquire b i2 w 500 P1 9000 -> [1 ~1000 i1 *]
		break P1 -> [1 i2 F2 ~500]`},
	{"a hold that is no longer kept alive rests; R18", `
		acquire a i1 w 2000 - - - P9:1 1000 -> [a F1 ~2000 1]
		detach a P9:1 -> 1
		detach a P9:1 -> 0
		acquire b i2 w 500 -> nil
		keep a 1000 P9:1 -> [0]
		ttl -> ~1000`},
	{"asked for again it rests longer, never shorter; R15", `
		acquire a i1 w 2000 - - - - 900 -> [a F1 ~2000 1]
		acquire a i2 w 2000 - - - - 500 -> [a F1 ~2000 1]
		acquire a i1 w 2000 - - - - 1900 -> [a F1 ~2000 1]
		release a u1 -> 1
		ttl -> ~900
		break -> 1
		acquire a i3 w 2000 - - - - 200 -> [a F2 ~2000 1]
		acquire a i4 w 2000 - - - - 1500 -> [a F2 ~2000 1]
		release a u2 -> 1
		ttl -> ~1500`},
	{"to others a reader goes on reading: readers share, writers wait; R30", `
		acquire a i1 r 2000 - - - - 800 -> [a F1 ~2000 1]
		acquire b i2 r 2000 - - - - 500 -> [b F2 ~2000 1]
		release a u1 -> 1
		release b u2 -> 1
		release a u1 -> 1
		release b u3 -> nil
		acquire w i3 w 500 -> nil
		acquire c i4 r 300 -> [c F3 ~300 1]
		acquire a i5 r 300 -> [a F4 ~300 1]
		release a u4 -> 1
		release c u5 -> 1
		acquire w i6 w 500 P1 9000 -> [1 ~800 *]
		sleep 820
		acquire w i6 w 500 P1 9000 -> [w F5 ~500 1]`},
	{"a reader becomes the writer once the others have rested; R29", `
		acquire a i1 r 2000 - - - - 500 -> [a F1 ~2000 1]
		acquire b i2 r 2000 -> [b F2 ~2000 1]
		release a u1 -> 1
		acquire b i3 w 2000 -> nil
		sleep 520
		acquire b i3 w 2000 -> [b F3 ~2000 1]`},
	{"a downgraded hold rests as that of a reader", `
		acquire a i1 w 2000 - - - - 1000 -> [a F1 ~2000 1]
		acquire a i2 r 2000 -> [a F1 ~2000 1]
		release a u1 -> 1
		acquire b i3 w 500 -> nil
		acquire c i4 r 500 -> [c F2 ~500 1]`},
	{"without the fence's key it rests too, and the answer stays known; R33", `
		acquire a i1 w 2000 - - - - 400 -> [a F1 ~2000 1]
		alone release a u1 -> 1
		alone release a u1 -> 1
		acquire b i2 w 500 -> nil
		ttl -> ~20000
		sleep 420
		acquire b i2 w 500 -> [b F2 ~500 1]`},
	{"each permit that rests counts as one, until its own end; R28", `
		acquire a i1 p3 4000 - - - - 500 -> [a F1 ~4000 1]
		acquire b i2 p3 4000 - - - - 1000 -> [b F2 ~4000 1]
		release a u1 F1 -> 1
		release a u1 F1 -> 1
		release b u2 -> 1
		release a u3 -> nil
		renew a 1000 -> 0
		cancel a i1 -> 0
		acquire c i3 p3 4000 -> [c F3 ~4000 1]
		acquire a i4 p3 4000 -> nil
		acquire d i5 p2 4000 -> -PERMITS
		acquire d i6 w 4000 -> -LOCKTYPE
		sleep 520
		acquire d i7 p3 4000 -> [d F4 ~4000 1]
		acquire e i8 p3 4000 -> nil
		sleep 500
		acquire e i9 p3 4000 -> [e F5 ~4000 1]
		acquire f ia p3 4000 -> nil
		release c u4 -> 1
		release d u5 -> 1
		release e u6 -> 1
		exists -> 0`},
	{"a semaphore whose permits all rest is in use until the last has", `
		acquire a i1 p2 4000 - - - - 300 -> [a F1 ~4000 1]
		acquire b i2 p2 4000 - - - - 600 -> [b F2 ~4000 1]
		release b u1 -> 1
		release a u2 -> 1
		sleep 320
		acquire c i3 p3 500 -> -PERMITS
		acquire c i4 w 500 -> -LOCKTYPE
		sleep 300
		acquire c i5 w 500 -> [c F3 ~500 1]`},
	{"the same token takes another permit, and both rest", `
		acquire a i1 p3 4000 - - - - 900 -> [a F1 ~4000 1]
		release a u1 -> 1
		acquire a i2 p3 4000 - - - - 900 -> [a F2 ~4000 1]
		release a u2 -> 1
		acquire a i3 p3 4000 - - - - 900 -> [a F3 ~4000 1]
		release a u3 -> 1
		acquire a i4 p3 4000 -> nil
		break -> 1
		break -> 0
		exists -> 0`},
	{"who waits for a permit is served at the end of the first that rests; R25", `
		acquire a i1 p2 9000 - - - - 900 -> [a F1 ~9000 1]
		acquire b i2 p2 9000 - - - - 500 -> [b F2 ~9000 1]
		acquire c i3 p2 1000 P1 9000 -> [1 ~9000 *]
		release a u1 - P1 -> 1
		acquire c i3 p2 1000 P1 9000 -> [1 ~900 ]
		release b u2 - P1 -> 1
		acquire c i3 p2 1000 P1 9000 -> [1 ~500 ]
		acquire d i4 p2 1000 -> nil
		sleep 520
		acquire d i5 p2 1000 -> nil
		acquire c i3 p2 1000 P1 9000 -> [c F3 ~1000 1]
		acquire d i6 p2 1000 -> nil`},
	{"a permit that is released late does not rest, nor one that nobody was told of", `
		acquire a i1 p1 2000 - - - - 200 -> [a F1 ~2000 1]
		sleep 250
		release a u1 -> 1
		exists -> 0
		acquire a i2 p1 2000 - - - - 1000 -> [a F2 ~2000 1]
		cancel a i2 -> 1
		exists -> 0`},
	{"a permit rests longer if it is asked for again, never shorter; R15", `
		acquire a i1 p1 2000 - - - - 900 -> [a F1 ~2000 1]
		acquire a i2 p1 2000 - - - - 300 -> [a F1 ~2000 1]
		release a u1 -> 1
		sleep 320
		acquire b i3 p1 1000 -> nil
		acquire b i4 p1 1000 P1 9000 -> [1 ~600 *]`},
	{"a permit that is no longer kept alive rests; R18", `
		acquire a i1 p1 4000 - - - P9:1 600 -> [a F1 ~4000 1]
		detach a P9:1 -> 1
		detach a P9:1 -> 0
		keep a 1000 P9:1 -> [0]
		acquire b i2 p1 500 -> nil
		sleep 620
		acquire b i3 p1 500 -> [b F2 ~500 1]`},
	{"a break gives permits that rest to those who wait, and to others; R23", `
		acquire a i1 p2 4000 - - - - 2000 -> [a F1 ~4000 1]
		acquire b i2 p2 4000 - - - - 2000 -> [b F2 ~4000 1]
		release a u1 -> 1
		acquire c i3 p2 500 P1 9000 -> [1 ~2000 *]
		break -> 1
		acquire c i3 p2 500 P1 9000 -> [c F3 ~500 1]
		acquire d i4 p2 500 -> [d F4 ~500 1]
		acquire e i5 p2 500 -> nil`},
	{"a permit rests without the fence's key, too; R33", `
		acquire a i1 p1 2000 - - - - 400 -> [a F1 ~2000 1]
		alone release a u1 -> 1
		alone release a u1 -> 1
		acquire b i2 p1 500 -> nil
		sleep 420
		acquire b i3 p1 500 -> [b F2 ~500 1]`},
}
