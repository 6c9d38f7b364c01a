package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"lockproxy/integration/rig"
)

// need is what a fault needs that not every machine allows.
type need int

const (
	nothing    need = iota
	ownNetwork      // a network of its own, with iptables, so that packets can be dropped
	ownNames        // host names of its own
)

// isInside says that the program runs in a network of its own.
var isInside bool

// hostsFile is what stands for /etc/hosts here, if the program has its own.
var hostsFile string

// why says why a need cannot be met; "": it can.
func (n need) why() string {
	switch n {
	case ownNetwork:
		if !isInside {
			return "it needs a network of its own, which this system or user may not have"
		}
		if _, err := exec.LookPath("iptables"); err != nil {
			return "it needs iptables: `make chaos` installs it"
		}
		if out, err := exec.Command("iptables", "-L", "-n").CombinedOutput(); err != nil {
			return "iptables does not work here: " + strings.TrimSpace(string(out))
		}
	case ownNames:
		if hostsFile == "" {
			return "it needs a file of host names of its own, which this system or user may not have"
		}
	}
	return ""
}

func (s *scene) iptables(args ...string) {
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		s.Fatalf("iptables %s: %v %s", strings.Join(args, " "), err, out)
	}
}

// drop drops the packets from and to the ports of a node, and those of the connections that it has made
// itself to such ports of others.
func (s *scene) drop(n *rig.Server, others string, ports ...int) {
	s.Cleanup(func() { exec.Command("iptables", "-F", "INPUT").Run() })
	for _, p := range ports {
		for _, end := range []string{"--dport", "--sport"} {
			s.iptables("-A", "INPUT", "-p", "tcp", end, strconv.Itoa(p), "-j", "DROP")
		}
	}
	for i, other := range s.cluster.Nodes {
		if other == n {
			s.iptables("-A", "INPUT", "-p", "tcp", "-s", source(i), "--dport", others, "-j", "DROP")
			s.iptables("-A", "INPUT", "-p", "tcp", "-d", source(i), "--sport", others, "-j", "DROP")
		}
	}
}

// busPorts are all ports of cluster buses, and anyPort all ports.
const busPorts, anyPort = "20240:26239", "1:65535"

// dropAll cuts a node off from everybody.
func (s *scene) dropAll(n *rig.Server) { s.drop(n, anyPort, n.Port, n.Port+10000) }

// dropBus cuts a node off from the other nodes, except for replication.
func (s *scene) dropBus(n *rig.Server) { s.drop(n, busPorts, n.Port+10000) }

// cut has packets of the master dropped until a replica has taken over, and for 16 s at least.
func cut(drop func(s *scene, n *rig.Server)) func(s *scene) {
	return func(s *scene) {
		s.watch(s.replica())
		s.strike()
		drop(s, s.master)
		s.promotion()
		time.Sleep(time.Until(s.load.begun.Add(s.struck + 16*time.Second)))
		s.healNetwork()
		s.ended()
	}
}

func (s *scene) healNetwork() { s.iptables("-F", "INPUT") }

// Names: node i is nodeI.chaos, at first at address 127.0.2.1I, later at 127.0.3.1I.

func nameOf(i int) string { return fmt.Sprintf("node%d.chaos", i) }

func addressOf(i, generation int) string { return fmt.Sprintf("127.0.%d.%d", 2+generation, 10+i) }

// named are the arguments of a node that announces its name.
func named(i int) []string {
	addr := addressOf(i, 0)
	return []string{"--bind", addr, "127.0.0.1", "--bind-source-addr", addr, "--cluster-announce-ip", addr,
		"--cluster-announce-hostname", nameOf(i)}
}

// writeHosts says at which addresses the nodes are; moved is the index of one that has moved, -1 of none.
func writeHosts(s *scene, moved int) {
	text := "127.0.0.1 localhost\n"
	for i := range 2 * masters {
		generation := 0
		if i == moved {
			generation = 1
		}
		text += addressOf(i, generation) + " " + nameOf(i) + "\n"
	}
	if err := os.WriteFile(hostsFile, []byte(text), 0o644); err != nil {
		s.Fatalf("%v", err)
	}
}

func namedUpstream(s *scene) string {
	writeHosts(s, -1)
	var all []string
	for i, n := range s.cluster.Nodes {
		all = append(all, fmt.Sprintf("%s:%d", nameOf(i), n.Port))
	}
	return strings.Join(all, ",")
}

// renumber has a master go and come back at another address, as a container does.
func renumber(s *scene) {
	i := 0
	for k, n := range s.cluster.Nodes {
		if n == s.master {
			i = k
		}
	}
	addr := addressOf(i, 1)
	s.strike()
	s.master.Kill()
	writeHosts(s, i)
	s.master.With("--bind", addr, "127.0.0.1", "--bind-source-addr", addr, "--cluster-announce-ip", addr)
	s.master.Restart(s)
	s.ended()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func removeDir(s *scene, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		s.Fatalf("%v", err)
	}
}
