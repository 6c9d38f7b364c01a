package settings

import (
	"testing"
	"time"
)

func TestEnviron(t *testing.T) {
	v, err := load(nil, []string{"PATH=/bin", "LOCKPROXY_LOCK_LEASE=45s", "LOCKPROXY_DEV=yes",
		"LOCKPROXY_ADMIN=", "LOCKPROXY_REQUIREPASS=a=b"})
	if err != nil {
		t.Fatal(err)
	}
	if v.Proxy.Locks.Lease != 45*time.Second || !v.Dev || v.Admin.Addr != "" || v.Proxy.Password != "a=b" {
		t.Errorf("%+v", v)
	}
}

func TestEnvironErrors(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"LOCKPROXY_LOCK_LEASE=30",
			`LOCKPROXY_LOCK_LEASE=30: lock-lease needs a unit: 30s or 30ms; allowed: 1ms to 8760h`},
		{"LOCKPROXY_LOCK_LEASE=",
			`LOCKPROXY_LOCK_LEASE="": lock-lease must be a duration, such as 30s, 500ms or 10m; allowed: ` +
				`1ms to 8760h`},
		{"LOCKPROXY_LOCK_LAESE=30s",
			`LOCKPROXY_LOCK_LAESE: there is no such setting; did you mean LOCKPROXY_LOCK_LEASE?`},
		{"LOCKPROXY_lock_lease=30s",
			`LOCKPROXY_lock_lease: there is no such setting; did you mean LOCKPROXY_LOCK_LEASE?`},
		{"LOCKPROXY_FOO=1", `LOCKPROXY_FOO: there is no such setting; lockproxy --help lists them`},
		{"LOCKPROXY_CLUSTER_MODE=y",
			`LOCKPROXY_CLUSTER_MODE=y: cluster-mode must be 'yes' or 'no'; allowed: yes or no`},
	} {
		_, err := load(nil, []string{c.variable})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got: %v\nwant: %s", c.variable, err, c.want)
		}
	}
}

// A container in Kubernetes beside a service of our name gets variables that look
// like ours.
func TestEnvironOfKubernetesIsIgnored(t *testing.T) {
	if _, err := load(nil, []string{
		"LOCKPROXY_SERVICE_HOST=10.0.0.7", "LOCKPROXY_SERVICE_PORT=6380", "LOCKPROXY_SERVICE_PORT_REDIS=6380",
		"LOCKPROXY_PORT=tcp://10.0.0.7:6380", "LOCKPROXY_PORT_6380_TCP=tcp://10.0.0.7:6380",
		"LOCKPROXY_PORT_6380_TCP_PROTO=tcp", "LOCKPROXY_PORT_6380_TCP_PORT=6380",
		"LOCKPROXY_PORT_6380_TCP_ADDR=10.0.0.7",
	}); err != nil {
		t.Error(err)
	}
	for _, s := range settings {
		if injected.MatchString(spellEnviron(s.Name)) {
			t.Errorf("setting %s cannot be told from a variable of Kubernetes", s.Name)
		}
	}
}
