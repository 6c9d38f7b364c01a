package commands_test

import (
	"testing"
)

func TestSelect(t *testing.T) {
	f := newSession(t)
	f.Server.Cluster = true
	for line, want := range map[string]string{
		"SELECT 0":  "+OK\r\n",
		"SELECT 1":  "-ERR SELECT is not allowed in cluster mode\r\n",
		"SELECT -1": "-ERR SELECT is not allowed in cluster mode\r\n",
		"SELECT x":  "-ERR value is not an integer or out of range\r\n",
	} {
		if got := f.Do(line); got != want || f.User.DB != 0 {
			t.Errorf("one Redis in cluster mode: %s: %q, database %d", line, got, f.User.DB)
		}
	}
	f.Server.InCluster = true // whose nodes decide
	if got := f.Do("SELECT 1"); got != "+OK\r\n" || f.User.DB != 1 {
		t.Errorf("a cluster: %q, database %d", got, f.User.DB)
	}
	f.Server.InCluster, f.Server.Cluster = false, false
	if got := f.Do("SELECT 9"); got != "+OK\r\n" || f.User.DB != 9 {
		t.Errorf("%q, database %d", got, f.User.DB)
	}
	if f.Do("HELLO 3"); f.User.DB != 9 {
		t.Error("HELLO changes the database")
	}
	if f.Do("SELECT 16"); f.User.DB != 9 {
		t.Error("a SELECT that failed changes the database")
	}
	if f.Do("RESET"); f.User.DB != 0 {
		t.Error("RESET keeps the database")
	}
}
