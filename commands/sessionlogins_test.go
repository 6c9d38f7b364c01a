package commands_test

// fakeLogins are the users of an upstream.
type fakeLogins struct {
	Passwords map[string]string
	Asked     []string // users
	LoggedOut int
}

func (c fakeConnection) Login(user, password string, then func(refusal []byte) []byte) {
	f := c.f
	f.Asked = append(f.Asked, user)
	refusal := []byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	if want, ok := f.Passwords[user]; ok && want == password {
		refusal = nil
	}
	if reply := then(refusal); reply != nil { // else it is asked once more
		f.Reply(reply)
	}
}

func (c fakeConnection) Logout() { c.f.LoggedOut++ }
