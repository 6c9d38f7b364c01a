package single

import (
	"strings"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// TakeAll implements locks.beside. A master that may not grant yet and all that mlock.lua does not decide are
// left to the requests for one lock. all are of one token and lease. held is an index of all.
func (e *Engine) TakeAll(all []*redlock.Acquire) (grants []redlock.Grant, held int, err error) {
	c := scripts.MlockCall(e.names, all, e.granter(e.slot(all[0].Name)))
	at := time.Now()
	reply, err := e.upstream.DoWhole(e.Ctx, c.Slot, c.Req, true)
	var fences []int64
	if err == nil {
		fences, held, err = scripts.ReadMlock(reply, len(all))
	}
	said, _ := err.(redlock.ReplyError)
	switch {
	case strings.HasPrefix(string(said), "MASTER "),
		strings.HasPrefix(string(said), "CROSSSLOT "): // a cluster that has one master
		return nil, 0, redlock.ErrOneByOne
	case redlock.Parted(reply):
		return nil, 0, redlock.ErrMoving
	case err != nil:
		for _, a := range all {
			a.Unsure = !redlock.Refused(err)
		}
		return nil, 0, err
	case held > 0:
		return nil, held - 1, nil
	// what mlock.lua leaves to requests for one lock, or a grant that nobody else may see
	case fences == nil, e.mayStray(c.Slot, at):
		return nil, 0, redlock.ErrOneByOne
	}
	for i, a := range all {
		a.Plain = a.Keeper == "" && a.Meta == ""
		grants = append(grants, redlock.Grant{
			Token: a.Token, Fence: fences[i], TTL: a.Lease, Count: 1, At: at,
		})
	}
	return grants, 0, nil
}
