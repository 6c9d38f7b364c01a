// Package line is a study, in tests alone: the rules by which proxies, and not clients, would stand in line
// for a lock. They are pure: no goroutine, no clock, no Redis. They are how redlock/wait and the scripts
// can keep those who wait without an entry for each. Redis knows proxies that wait, and a proxy knows its
// clients that wait.
//
//	client --LOCK--> proxy --script--> Redis    granted; or a ticket, and the proxy stands in the line
//	proxy  <--message-- Redis                   the lock is free for you; or for others, look after 0.5 s
//	proxy  --Move----> Redis                    who I ask for, and where I stand once they are in
//
// A LOCK that is not granted draws a ticket in the same script. Tickets are the only order there is. They are
// what the clock of Redis shows (µs), but higher than the last one and than what the proxy knows of: so they
// rise over a fail-over that has lost the line. A reader that is to become the writer has the ticket 0.
//
// In Redis, the hash of a lock has one field for all who wait (redis_test.go has it with its scripts):
//
//	last told; proxy head writer up seen alive offered number; proxy ...
//
// last is the highest ticket, told when all who wait are going to ask again. A proxy has its lowest ticket
// (head), the lowest one of who wants to write (writer), the token of the reader that is to become the writer
// (up), the highest ticket drawn for it (seen), until when it counts as alive, until when the lock is offered
// to it, and the number of its last Move. head and writer tell the mode of the head, so that is not kept.
//
// In a proxy, a Line has the waiters in the order of their tickets, LOCKs under way, what Redis has been told
// (told), whether a Move is under way, and when to ask. Who waits (lease, META, keeper, client) is the
// proxy's alone.
//
// # Transitions
//
// Each script first forgets proxies whose alive is over, and at the end offers the lock: to the lowest head
// that may go in and is not passed over; or if that reads, to all proxies with readers below the lowest
// writer. An offer is one message to all proxies in the line. Once it is over, the proxy is passed over until
// it speaks, and its tickets are good again then. A script also tells if the lock is going to be free earlier
// (a shorter lease, a rest) than those who wait were told before.
//
//	LOCK     reads holds, all heads. Granted if there is room and nobody stands before: for a writer or a
//	         permit no head, for a reader no writer; who is passed over does not count. Else it draws a
//	         ticket: head, writer, seen, alive. A reader's WLOCK stands first, unless another one does:
//	         DEADLOCK.
//	Move     by itself, or behind an UNLOCK in the same script. Nothing if its number is below the last one.
//	         Else head, writer and up become what it says, alive and offered anew. It asks for one writer,
//	         for readers or for permits: granted one by one, as far as there is room, and nobody of another
//	         proxy stands before.
//	UNLOCK   frees. It takes a Move along if the proxy has something to say and no Move is under way.
//	cancel, BREAK, detach   free, and end as all scripts do. They say nothing of the line.
//
// A proxy sends a Move if the lock is offered to it; if the time has come that the last reply or a message
// told; if where it stands is not what Redis has been told, because its head or first writer has left; at
// least every 5 s while it has waiters. A waiter that leaves is no request as long as others stand before it.
// The hand-over within a proxy is 1 request, to another one 2; LOCK is 1, also if it waits; UNLOCK is 1.
//
// # Holes that walks found, and what closes them
//
// An entry that a Move sets is what its proxy knew when it sent it:
//
//   - A LOCK that ran meanwhile is not in it, so its client would sleep. The Move says the highest ticket
//     that LOCKs have told (Seen). If a higher one was drawn, the proxy stands right behind Seen, until it
//     knows. Nothing may be reckoned from the oldest LOCK under way: one that hangs would keep an old ticket
//     in front. And it is said once: as long as that LOCK is under way, saying it again wins nothing.
//   - The reply of such a LOCK may be read before that of the Move, and its client may have left again: the
//     proxy must remember the ticket all the same (joined), or it takes the line for what it is not.
//   - A copy of a Move that comes late would set back the entry, and does not show that its proxy lives. So
//     Moves have numbers, one that failed is sent under a new number, and a LOCK says the number too, for an
//     entry that has gone and comes again has forgotten it. A proxy that forgets a Line goes on counting.
//
// Messages are for proxies that know that they wait:
//
//   - An offer, and that a lease is shorter, may come before the reply of the LOCK that it is for: Line.again
//     and Line.due hold while a LOCK is under way.
//   - A LOCK that joins while an offer runs that its proxy, without waiters so far, did not hear: the reply
//     says so, also to a LOCK that does not wait.
//   - If only the proxy that is offered the lock were told, and that is dead, nobody would ask for a lease.
//   - If the hold is handed on within a proxy with a shorter lease, others would ask when the longer one is
//     over. So the script tells of it (told).
//   - alive is shorter than leases are, so a proxy must speak before a lease is over: the pulse.
//   - A proxy that stood still reads replies late: they count from when it sent the request.
//
// The order:
//
//   - Counted tickets begin anew when the line is lost: then newcomers come first, and two have one ticket.
//   - With offers for as many proxies as permits are free, a second ticket of the first proxy is overtaken by
//     the head of the second. Permits are offered to one proxy at a time, which takes as many as it may.
//   - If Redis stands still while an offer runs, nobody is to blame: if nobody of the line has spoken since
//     its end, 0.1 s later, it is made again. The others would have asked at its end.
//
// # What remains
//
//   - A copy of a Move that comes after its proxy has left the line: an offer of 0.5 s to nobody, within
//     15 s; or a grant to a client that has left, for a lease. Copies are what a broken connection leaves.
//   - If the reply of a LOCK is read behind that of a later LOCK, over another connection, a Move between the
//     two does not count it: it has no place until its proxy says so, two round trips later.
//   - The ticket of a LOCK whose first reply was lost stands for nobody until the next Move of its proxy.
//   - A message that is lost costs up to 5 s, since proxies ask no more often. So does a writer that died
//     while readers hold the lock, behind whom other readers stand.
//   - A token that waits at two proxies, to read and to write, becomes an upgrade when the second asks next.
//   - lock-max-queue is counted by each proxy, and LOCKCTL INFO must ask proxies how many wait; or an entry
//     gets one number more, which LOCK raises and a Move sets.
//   - Tickets need clocks of masters that differ by less than a fail-over takes, as fences do.
//   - After a fail-over that lost tickets, order holds again once each proxy has spoken.
//   - Redis does not know the token of who waits. So an UNLOCK that goes alone, behind a LOCK whose reply is
//     under way, cannot hand over: two clients that do nothing but lock and unlock need a request more.
//
// # Is that simpler than a queue of clients?
//
// In Redis it is, in a proxy it is not. Scripts look for no dead waiters, count no looks, close no holes, and
// need no list of readers apart from the waiters; what a lock takes in Redis does not grow with those who
// wait. In exchange two sides keep one truth, and have to mend it after each reply that is lost or late: most
// of the holes above are of that kind, and a queue of clients has none of them. By an estimate, in lines
// without comments, 380 of Lua go and 200 come; 250 of Go go and 450 come, 250 of them here.
package line
