package clients

import "lockproxy/proxy/client"

// Unblock implements commands.Clients. Whether it did is known on the loop of the other client, perhaps only
// once its node has answered.
func (c Commands) Unblock(id int64, withError bool) {
	c.Host.AnswerLater(client.ByProxy)
	c.Host.Actions().Await(func(done func([]byte)) {
		ended := func(did bool) {
			if did {
				done([]byte(":1\r\n"))
			} else {
				done([]byte(":0\r\n"))
			}
		}
		all := c.On.all
		blocked := all.Find(id)
		if blocked == nil || !all.loops[all.IndexOf(id)].Post(func() { blocked.Unblock(withError, ended) }) {
			ended(false)
		}
	}, func(reply []byte) []byte { return reply }, nil)
}
