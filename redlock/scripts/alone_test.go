package scripts_test

// Scripts work with the lock as their only key, while the fence of its slot is at another node.
var alone = []struct{ name, text string }{
	{"a lock is granted without a fence, and gets it; R8", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		release a u1 -> 1
		alone acquire b i2 w 1000 -> [b F? ~1000 1]
		alone acquire b i2 w 1000 -> [b F? ~1000 1]
		alone acquire c i3 w 1000 -> nil
		acquire c i3 w 1000 -> nil
		number b -> [F2 1]
		number b -> [F3 0]
		alone acquire b i2 w 1000 -> [b F2 ~1000 1]
		acquire b i4 w 1000 -> [b F2 ~1000 1]
		alone release b u2 -> 1
		number b -> [F4 0]
		acquire c i5 w 1000 -> [c F5 ~1000 1]`},
	{"whoever meets a hold without a fence is told so; R8 R15", `
		alone acquire a i1 w 1000 -> [a F? ~1000 1]
		acquire a i2 w 1000 -> [a F? ~1000 1]
		reenter a i3 w 1000 -> [a F? ~1000 2]
		renew a 2000 - P1:k -> [~2000 F?]
		number a -> [F1 1]
		renew a 3000 - P1:k -> [~3000 F1]
		acquire a i1 w 1000 -> [a F1 ~3000 2]`},
	{"no fence is lost for a hold that came later; R8", `
		alone acquire a i1 w 100 -> [a F? ~100 1]
		sleep 120
		number a -> [F1 0]
		acquire a i2 w 1000 -> [a F2 ~1000 1]
		number a -> [F3 0]
		acquire a i2 w 1000 -> [a F2 ~1000 1]`},
	{"readers, of whom one becomes the writer; R28", `
		alone acquire a i1 r 1000 -> [a F? ~1000 1]
		alone acquire a i2 w 1000 P1 -> -FENCE
		number a -> [F1 1]
		alone acquire b i3 r 1000 -> [b F? ~1000 1]
		number b -> [F2 1]
		alone acquire a i2 w 1000 P1 -> [0 ~1000 *]
		alone release b u1 -> 1
		alone acquire a i2 w 1000 P1 -> [a F? ~1000 1]
		number a -> [F3 1]
		alone acquire a i1 r 1000 -> [a F1 ~1000 1]
		alone acquire a i2 w 1000 P1 -> [a F3 ~1000 1]`},
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
		alone acquire d i6 w 1000 -> [d F? ~1000 1]
		alone release d u6 -> 1
		exists -> 1`},
	{"what a release was answered; R16 R33", `
		acquire a i1 w 1000 -> [a F1 ~1000 1]
		answered u1 -> nil
		answered u1 _ -> 1
		answered u1 _ -> 1
		answered u2 - -> 0
		answered u1 -> 1
		answered u2 -> 0`},
	{"the lock is offered, and not handed over; R25", `
		acquire a i1 w 5000 -> [a F1 ~5000 1]
		alone acquire b i2 w 1000 me 5000 10 -> [1 ~5000 i1 *]
		alone release a u1 -> 1
		alone release a u1 -> 1
		alone acquire c i3 w 1000 -> nil
		alone acquire b i2 w 1000 me 5000 10 -> [b F? ~1000 1]
		alone cancel b i2 -> 1
		exists -> 0`},
	{"broken, and let go; R18 R23", `
		alone acquire a i1 w 1000 -> [a F? ~1000 1]
		alone break -> 1
		alone break -> 0
		number a -> [F1 0]
		acquire a i2 w 1000 -> [a F2 ~1000 1]
		renew a 1000 - P1:k -> [~1000 F2]
		alone detach a P1:k -> 1
		alone break -> 0
		acquire a i3 w 1000 - - - P2:k -> [a F3 ~1000 1]
		alone break -> 1`},
}
