package clients

import (
	"context"

	"lockproxy/commands"
)

// Unblock implements commands.Clients. Whether it did is known on the loop of the other client, perhaps only
// once its node has answered. So the asking one waits in a task.
func (c Commands) Unblock(id int64, withError bool) {
	all := c.On.all
	c.Host.Actions().Task(commands.Returning(func(ctx context.Context) []byte {
		blocked, ended := all.Find(id), make(chan bool, 1)
		if blocked == nil || !all.loops[all.IndexOf(id)].Post(func() {
			blocked.Unblock(withError, func(done bool) { ended <- done })
		}) {
			ended <- false
		}
		select {
		case done := <-ended:
			if done {
				return []byte(":1\r\n")
			}
			return []byte(":0\r\n")
		case <-ctx.Done():
			return commands.ErrorReply(context.Cause(ctx))
		}
	}), nil)
}
