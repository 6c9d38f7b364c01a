package commands

// fakeLogins are the users of an upstream.
type fakeLogins struct {
	passwords map[string]string
	asked     []string // users
	loggedOut int
}

func (c fakeConnection) Login(user, password string, then func(refusal []byte) []byte) {
	f := c.f
	f.asked = append(f.asked, user)
	refusal := []byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	if want, ok := f.passwords[user]; ok && want == password {
		refusal = nil
	}
	if reply := then(refusal); reply != nil { // else it is asked once more
		f.Reply(reply)
	}
}

func (c fakeConnection) Logout() { c.f.loggedOut++ }
