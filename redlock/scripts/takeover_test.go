package scripts_test

// Transitions by LOCK with BREAK (take).
var takeovers = []struct{ name, text string }{
	{"it takes what is free, and what others hold; R23", `
		take a i1 w 60000 -> [a F1 ~60000 1]
		redis TYPE lock:{job} -> string
		take b i2 w 500 -> [b F2 ~500 1 1]
		release a u1 -> nil
		renew a 1000 -> 0
		acquire c i3 w 1000 -> nil
		ttl -> ~20000
		sleep 520
		acquire c i3 w 1000 -> [c F3 ~1000 1]`},
	{"it breaks nothing if its token holds the lock; R15", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		take a i2 w 500 -> [a F1 ~1000 1]
		take a i2 r 500 -> [a F1 ~1000 1]
		take a i3 r 500 -> [a F1 ~1000 1]
		acquire b i4 r 1000 -> [b F2 ~1000 1]
		take a i5 r 500 -> [a F1 ~1000 1]
		release b u1 -> 1
		release a u2 -> 1
		exists -> 0`},
	{"sent again it breaks nothing", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		take b i2 w 1000 -> [b F2 ~1000 1 1]
		take b i2 w 1000 -> [b F2 ~1000 1]
		cancel b i2 -> 1
		exists -> 0`},
	{"the queue waits on; R29", `
		acquire a i1 w 5000 -> [a F1 ~5000 1]
		acquire b i2 w 1000 P1 9000 -> [1 ~5000 i1 *]
		take c i3 w 700 -> [c F2 ~700 1 1]
		acquire b i2 w 1000 P1 9000 -> [1 ~700 i3]
		release c u1 - P2 -> 1
		take d i4 w 700 -> [d F3 ~700 1]
		acquire b i2 w 1000 P1 9000 -> [1 ~700 i4]
		release d u2 - P1 -> [1 i2 F4 ~1000]
		release b u3 -> 1
		exists -> 0`},
	{"all readers go, for a writer and for a reader; R30", `
		acquire a i1 r 1000 -> [a F1 ~1000 1]
		acquire b i2 r 2000 -> [b F2 ~2000 1]
		take c i3 w 500 -> [c F3 ~500 1 1]
		release a u1 -> nil
		take d i4 r 500 -> [d F4 ~500 1 1]
		acquire a i5 r 500 -> [a F5 ~500 1]
		take b i6 r 500 -> [b F6 ~500 1 1]
		release d u2 -> nil
		release a u3 -> nil
		release b u4 -> 1
		exists -> 0`},
	{"readers that wait join the reader that breaks", `
		acquire a i1 w 5000 -> [a F1 ~5000 1]
		acquire b i2 r 1000 P1 9000 -> [1 ~5000 i1 *]
		acquire c i3 w 1000 P1 9000 -> [2 ~5000 i1]
		take d i4 r 700 -> [d F2 ~700 1 1]
		acquire b i2 r 1000 P1 9000 -> [b F3 ~1000 1]`},
	{"a reader that becomes the writer ends the others; R29", `
		acquire a i1 r 1000 -> [a F1 ~1000 1]
		acquire b i2 r 2000 -> [b F2 ~2000 1]
		acquire b i3 w 2000 P1 9000 -> [0 ~1000 *]
		take a i4 w 500 -> [a F3 ~1000 1 1]
		release b u1 -> nil
		acquire c i5 w 1000 -> nil
		cancel a i4 -> 1
		acquire c i6 r 1000 -> [c F4 ~1000 1]
		release a u2 -> 1
		release c u3 -> 1`},
	{"the only reader becomes the writer, and breaks nothing", `
		acquire a i1 r 1000 -> [a F1 ~1000 1]
		take a i2 w 500 -> [a F2 ~1000 1]
		release a u1 -> 1
		exists -> 0`},
	{"what rests ends", `
		acquire a i1 w 2000 - - - - 1000 -> [a F1 ~2000 1]
		release a u1 -> 1
		take a i2 w 500 -> [a F2 ~500 1 1]
		release a u2 -> 1
		acquire a i3 r 2000 - - - - 1000 -> [a F3 ~2000 1]
		release a u3 -> 1
		take b i4 r 500 -> [b F4 ~500 1 1]`},
	{"a hold that was kept alive goes, and the new one is kept; R18", `
		acquire a i1 w 2000 - - - P9:1 -> [a F1 ~2000 1]
		take b i2 w 2000 P8:2 -> [b F2 ~2000 1 1]
		keep a 1000 P9:1 -> [0]
		detach a P9:1 -> 0
		keep b 3000 P8:2 -> [~3000]
		detach b P8:2 -> 1
		exists -> 0`},
	{"it asks for a new id if its proxy was granted the lock since; R8", `
		acquire a proxyid100000005 w 1000 -> [a F1 ~1000 1]
		take b proxyid100000004 w 1000 -> -1
		take b proxyid100000006 w 1000 -> [b F2 ~1000 1 1]
		acquire c proxyid200000001 r 1000 -> nil
		take c proxyid200000001 r 1000 -> [c F3 ~1000 1 1]
		acquire d proxyid100000009 r 1000 -> [d F4 ~1000 1]
		take e proxyid100000008 w 1000 -> -2
		release c u1 -> nil
		release d u2 -> 1`},
	{"what is refused has ended nothing; R10", `
		acquire a i1 p2 1000 -> [a F1 ~1000 1]
		take b i2 w 1000 -> -LOCKTYPE
		take b i2 r 1000 -> -LOCKTYPE
		release a u1 -> 1
		take b i3 r 1000 -> [b F2 ~1000 1]
		release b u2 -> 1
		redis SET lock:{job} x -> OK
		take b i4 w 1000 -> -LOCKTYPE
		redis GET lock:{job} -> x`},
}
