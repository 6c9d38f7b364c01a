package commands_test

import "lockproxy/commands"

// The steps of a transaction are the session's own; here they only leave their name.

type fakeTransactions struct{ f *session }

func (f *session) Transactions() commands.Transactions { return fakeTransactions{f} }

func (t fakeTransactions) Multi()   { t.f.Reply([]byte("+multi\r\n")) }
func (t fakeTransactions) Exec()    { t.f.Reply([]byte("+exec\r\n")) }
func (t fakeTransactions) Discard() { t.f.Reply([]byte("+discard\r\n")) }
func (t fakeTransactions) Watch()   { t.f.Reply([]byte("+watch\r\n")) }
func (t fakeTransactions) Unwatch() { t.f.Reply([]byte("+unwatch\r\n")) }
