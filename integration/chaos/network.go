package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// need is what a fault needs that not every machine allows.
type need int

const (
	nothing    need = iota
	ownNetwork      // a network of its own, with iptables, so that packets can be dropped
	ownNames        // host names of its own
)

// hostsFile is what stands for /etc/hosts, if the program has a network and host names of its own: inside.sh.
var hostsFile = os.Getenv("CHAOS_HOSTS")

// why says why a need cannot be met; "": it can.
func (n need) why() string {
	if n != nothing && hostsFile == "" {
		return "it needs a network and host names of its own, which this system or user may not have"
	}
	if n == ownNetwork {
		if out, err := exec.Command("iptables", "-L", "-n").CombinedOutput(); err != nil {
			return fmt.Sprintf("it needs iptables, which `make chaos` installs: %v %s", err, out)
		}
	}
	return ""
}

func (s *scene) iptables(args ...string) {
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		s.Fatalf("iptables %s: %v %s", strings.Join(args, " "), err, out)
	}
}

// source is the address from which node i connects to others: so what it sends can be told from what the
// others do.
func source(i int) string { return fmt.Sprintf("127.0.1.%d", 10+i) }

// cut has packets of the master dropped until a replica has taken over, and for 16 s at least: those from and
// to its bus, and with whole also the port for clients; and those of the connections that it has made itself
// to such ports of others. Replication goes on if it is not whole.
func cut(whole bool) func(s *scene) {
	return func(s *scene) {
		ports, others := []int{s.master.Port + 10000}, "20240:26239" // all ports of buses
		if whole {
			ports, others = append(ports, s.master.Port), "1:65535"
		}
		s.Cleanup(func() { exec.Command("iptables", "-F", "INPUT").Run() })
		drop := func(match ...string) {
			s.iptables(append(append([]string{"-A", "INPUT", "-p", "tcp"}, match...), "-j", "DROP")...)
		}
		for _, p := range ports {
			drop("--dport", strconv.Itoa(p))
			drop("--sport", strconv.Itoa(p))
		}
		drop("-s", source(s.index()), "--dport", others)
		drop("-d", source(s.index()), "--sport", others)
		s.promotion()
		time.Sleep(time.Until(s.load.begun.Add(s.struck + 16*time.Second)))
		s.iptables("-F", "INPUT")
	}
}

// forget has packets dropped of the connections that clients have to the master now, for 16 s.
func forget(s *scene) {
	s.Cleanup(func() { exec.Command("iptables", "-F", "INPUT").Run() })
	port := strconv.Itoa(s.master.Port)
	for _, kind := range []string{"normal", "pubsub"} {
		for line := range strings.Lines(s.master.Do(s, "CLIENT", "LIST", "TYPE", kind).Text) {
			_, from, _ := strings.Cut(line, " addr=")
			from, _, _ = strings.Cut(from, " ")
			_, from, _ = strings.Cut(from, ":")
			s.iptables("-A", "INPUT", "-p", "tcp", "--sport", from, "--dport", port, "-j", "DROP")
			s.iptables("-A", "INPUT", "-p", "tcp", "--sport", port, "--dport", from, "-j", "DROP")
		}
	}
	time.Sleep(time.Until(s.load.begun.Add(s.struck + 16*time.Second)))
	s.iptables("-F", "INPUT")
}

// index says which of the nodes the master is.
func (s *scene) index() int { return slices.Index(s.cluster.Nodes, s.master) }

// Names: node i is nodeI.chaos, at first at address 127.0.2.1I, later at 127.0.3.1I.

func nameOf(i int) string { return fmt.Sprintf("node%d.chaos", i) }

// at are the arguments of a node at its first or second address.
func at(i, generation int) []string {
	addr := addressOf(i, generation)
	return []string{"--bind", addr, "127.0.0.1", "--bind-source-addr", addr, "--cluster-announce-ip", addr}
}

func addressOf(i, generation int) string { return fmt.Sprintf("127.0.%d.%d", 2+generation, 10+i) }

// named are the arguments of a node that announces its name.
func named(i int) []string { return append(at(i, 0), "--cluster-announce-hostname", nameOf(i)) }

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
	s.master.Kill()
	writeHosts(s, s.index())
	s.master.With(at(s.index(), 1)...)
	s.master.Restart(s)
}
