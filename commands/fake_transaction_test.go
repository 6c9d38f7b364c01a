package commands

// The steps of a transaction are the session's own; here they only leave their name.

func (f *fakeSession) Multi()          { f.Reply([]byte("+multi\r\n")) }
func (f *fakeSession) ExecMulti()      { f.Reply([]byte("+exec\r\n")) }
func (f *fakeSession) DiscardMulti()   { f.Reply([]byte("+discard\r\n")) }
func (f *fakeSession) Watch()          { f.Reply([]byte("+watch\r\n")) }
func (f *fakeSession) Unwatch()        { f.Reply([]byte("+unwatch\r\n")) }
func (f *fakeSession) EndTransaction() { f.client.Transaction = Transaction{} }
