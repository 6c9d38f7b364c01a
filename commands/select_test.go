package commands

import "testing"

func TestSelect(t *testing.T) {
	f := newFake(t)
	for _, face := range []struct{ clustered, clusterMode bool }{{true, false}, {false, true}, {true, true}} {
		f.server.clustered, f.server.clusterMode = face.clustered, face.clusterMode
		for line, want := range map[string]string{
			"SELECT 0":  "+OK\r\n",
			"SELECT 1":  "-ERR SELECT is not allowed in cluster mode\r\n",
			"SELECT -1": "-ERR SELECT is not allowed in cluster mode\r\n",
			"SELECT x":  "-ERR value is not an integer or out of range\r\n",
		} {
			if got := f.do(line); got != want || f.client.DB != 0 {
				t.Errorf("%+v: %s: %q, database %d", face, line, got, f.client.DB)
			}
		}
	}
	f.server.clustered, f.server.clusterMode = false, false
	if got := f.do("SELECT 9"); got != "+OK\r\n" || f.client.DB != 9 {
		t.Errorf("%q, database %d", got, f.client.DB)
	}
	if f.do("HELLO 3"); f.client.DB != 9 {
		t.Error("HELLO changes the database")
	}
	if f.do("SELECT 16"); f.client.DB != 9 {
		t.Error("a SELECT that failed changes the database")
	}
	if f.do("RESET"); f.client.DB != 0 {
		t.Error("RESET keeps the database")
	}
}
