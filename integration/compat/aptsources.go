package compat

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// keyrings are the keys of the archives, where they are not trusted by themselves.
var keyrings = map[string]string{
	"debian": "/usr/share/keyrings/debian-archive-keyring.gpg",
	"ubuntu": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}

// archives are where the sources are if apt knows no mirror.
var archives = map[string][]string{
	"debian": {"http://deb.debian.org/debian %s main",
		"http://deb.debian.org/debian-security %s-security main"},
	"ubuntu": {"http://archive.ubuntu.com/ubuntu %s main universe",
		"http://archive.ubuntu.com/ubuntu %s-updates main universe",
		"http://security.ubuntu.com/ubuntu %s-security main universe"},
}

// sourceLines is a sources.list of the sources of this system's packages, from the
// mirrors that apt uses here.
func sourceLines() (string, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	id, codename := osField(string(release), "ID"), osField(string(release), "VERSION_CODENAME")
	out, _ := exec.Command("apt-get", "indextargets", "--format",
		"$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)").Output()
	places := mirrors(string(out), codename)
	if len(places) == 0 {
		for _, place := range archives[id] {
			places = append(places, fmt.Sprintf(place, codename))
		}
	}
	if len(places) == 0 || codename == "" {
		return "", fmt.Errorf("no package mirror is known for the system %q, release %q", id, codename)
	}
	signed := ""
	if _, err := os.Stat(keyrings[id]); err == nil {
		signed = "[signed-by=" + keyrings[id] + "] "
	}
	return "deb-src " + signed + strings.Join(places, "\ndeb-src "+signed) + "\n", nil
}

// mirrors finds, in what `apt-get indextargets` prints, the places of a release's packages:
// what else apt is told of has no sources of Redis.
func mirrors(targets, codename string) (places []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(targets) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "Packages" || f[2] != codename && !strings.HasPrefix(f[2], codename+"-") {
			continue
		}
		if place := strings.Join(f[1:], " "); !seen[place] {
			seen[place] = true
			places = append(places, place)
		}
	}
	return places
}

// osField is a field of /etc/os-release.
func osField(text, name string) string {
	for line := range strings.Lines(text) {
		if field, value, _ := strings.Cut(strings.TrimSpace(line), "="); field == name {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}
