package deploy

import (
	"os"
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
	write(t, filepath.Join(dir, "lockproxy.socket"), edit.Replace(read(t, "systemd/lockproxy.socket")))
	return filepath.Join(dir, "lockproxy.service")
}

// analyze runs a tool of systemd, which may have nothing to say. It sees no unit besides ours and the one
// that every service requires: those of the machine have faults of their own.
func analyze(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	program, err := exec.LookPath(args[0])
	if err != nil {
		t.Fatalf("%v: integration/install.sh installs it", err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sysinit.target"), "[Unit]\nDescription=it has begun\n")
	cmd := exec.Command(program, args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SYSTEMD_UNIT_PATH=" + dir}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func TestUnit(t *testing.T) {
	file := unit(t, strings.NewReplacer())
	socket := strings.TrimSuffix(file, "service") + "socket"
	if said, ok := analyze(t, "systemd-analyze", "verify", "--man=no", file, socket); !ok || said != "" {
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

// A broken unit of another program, which the machine starts beside ours, is no fault of ours.
func TestUnitBesideABrokenOne(t *testing.T) {
	machine := t.TempDir()
	write(t, filepath.Join(machine, "sysinit.target"), "[Unit]\nWants=broken.service\n")
	write(t, filepath.Join(machine, "broken.service"), "[Service]\nExecStart=/no/such/program\nColour=red\n")
	t.Setenv("SYSTEMD_UNIT_PATH", machine)
	file := unit(t, strings.NewReplacer())
	out, _ := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if !strings.Contains(string(out), "broken.service") {
		t.Fatalf("a machine with a broken unit says %q", out)
	}
	if said, ok := analyze(t, "systemd-analyze", "verify", "--man=no", file); !ok || said != "" {
		t.Errorf("the unit is blamed for another one: %s", said)
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
	machine := t.TempDir() // with no users yet
	file := filepath.Join(machine, "etc/sysusers.d/lockproxy.conf")
	write(t, file, read(t, "systemd/lockproxy.conf.sysusers"))
	said, ok := analyze(t, "systemd-sysusers", "--dry-run", "--root="+machine)
	if !ok || !strings.Contains(said, "lockproxy") {
		t.Errorf("systemd-sysusers: %s", said)
	}
}
