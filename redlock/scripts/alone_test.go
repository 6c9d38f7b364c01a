package scripts_test

// Scripts that end a hold work with the lock as their only key, while the fence of its slot is at another
// node.
var alone = []struct{ name, text string }{
	{"a release that is sent again; R16 R33", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		alone release a u1 -> 1
		alone release a u1 -> 1
		release a u1 -> 1
		alone release a u2 -> nil
		acquire b i2 w 1000 -> [b F2 ~1000 1]
		alone release a u1 -> 1
		alone release b u3 -> 1
		alone release b u3 -> 1
		alone release a u1 -> 1
		ttl -> ~20000
		acquire c i4 w 30000 -> [c F3 ~30000 1]
		ttl -> ~30000
		reenter c i5 w 30000 -> [c F3 ~30000 2]
		alone release c u4 -> 0
		alone release c u4 -> 0
		alone release c u5 -> 1
		acquire d i6 w 1000 -> [d F4 ~1000 1]
		alone release d u6 -> 1
		exists -> 1`},
	{"what a release was answered before its slot began to move; R16 R33", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		answered u1 -> nil
		release a u1 -> 1
		alone release a u1 -> nil
		answered u1 -> 1
		reenter b i2 w 1000 -> [b F2 ~1000 1]
		reenter b i3 w 1000 -> [b F2 ~1000 2]
		release b u2 -> 0
		answered u2 -> 0`},
	{"the lock is offered, and not handed over; R25", `
		acquire a i1 w 5000 -> [a F1 ~5000 1]
		acquire b i2 w 1000 me 5000 10 -> [1 ~5000 i1 *]
		alone release a u1 -> 1
		alone release a u1 -> 1
		acquire c i3 w 1000 -> nil
		acquire b i2 w 1000 me 5000 10 -> [b F2 ~1000 1]
		alone cancel b i2 -> 1
		exists -> 0`},
	{"broken, and let go; R18 R23", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		alone break -> 1
		alone break -> 0
		acquire a i2 w 1000 -> [a F2 ~1000 1]
		renew a 1000 - P1:k -> [~1000 F2]
		alone detach a P1:k -> 1
		alone break -> 0
		acquire a i3 w 1000 - - - P2:k -> [a F3 ~1000 1]
		alone break -> 1`},
}
