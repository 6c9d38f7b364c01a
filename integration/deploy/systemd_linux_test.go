package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const program = "/usr/local/bin/lockproxy" // where the unit looks for it

// unit copies the unit, with its drop-in, to where systemd-analyze reads it, with a program that is there.
func unit(t *testing.T, edit *strings.Replacer) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.ReplaceAll(read(t, "systemd/lockproxy.service"), program, "/bin/true")
	write(t, filepath.Join(dir, "lockproxy.service"), edit.Replace(text))
	write(t, filepath.Join(dir, "lockproxy.service.d/credentials.conf"), read(t, "systemd/credentials.conf"))
	return filepath.Join(dir, "lockproxy.service")
}

// analyze runs a tool of systemd, which may have nothing to say.
func analyze(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Fatalf("%v: integration/install.sh installs it", err)
	}
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return string(out), err == nil
}

func TestUnit(t *testing.T) {
	file := unit(t, strings.NewReplacer())
	if said, ok := analyze(t, "systemd-analyze", "verify", "--man=no", file); !ok || said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	if !strings.Contains(read(t, "systemd/lockproxy.service"), "\nExecStart="+program+" ") {
		t.Errorf("the unit does not start %s", program)
	}
}

// The judge can fail.
func TestUnitWithMistakes(t *testing.T) {
	for right, wrong := range map[string]string{
		"NoNewPrivileges=yes":          "NoNewPrivilege=yes",
		"SystemCallFilter=":            "SystemCallFilter=@no-such-set ",
		"ExecStart=/bin/true":          "ExecStart=/no/such/program",
		"RestrictAddressFamilies=":     "RestrictAddressFamilies=AF_NONE ",
		"ExecReload=/bin/kill -HUP":    "ExecReload=/no/such/kill",
		"RestartPreventExitStatus=2\n": "RestartPreventExitStatus=wrong\n",
	} {
		file := unit(t, strings.NewReplacer(right, wrong))
		if said, ok := analyze(t, "systemd-analyze", "verify", "--man=no", file); ok && said == "" {
			t.Errorf("%s: nothing is said", wrong)
		}
	}
}

// What the service may do is little: systemd counts how exposed it is, from 0 to 10.
func TestUnitIsClosed(t *testing.T) {
	const most = "20" // tenths
	file := unit(t, strings.NewReplacer())
	said, ok := analyze(t, "systemd-analyze", "security", "--offline=true", "--threshold="+most, file)
	if !ok {
		t.Errorf("more exposed than %s: %s", most, said)
	}
	open := unit(t, strings.NewReplacer("SystemCallFilter=", "# ", "ProtectSystem=", "# "))
	if _, ok := analyze(t, "systemd-analyze", "security", "--offline=true", "--threshold="+most, open); ok {
		t.Error("a unit without a filter of system calls is closed enough, too")
	}
}

func TestUserOfTheService(t *testing.T) {
	file := filepath.Join(filepath.Dir(unit(t, strings.NewReplacer())), "lockproxy.conf")
	write(t, file, read(t, "systemd/lockproxy.conf.sysusers"))
	if said, ok := analyze(t, "systemd-sysusers", "--dry-run", file); !ok {
		t.Errorf("systemd-sysusers: %s", said)
	}
}
