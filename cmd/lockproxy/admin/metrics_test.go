package admin

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lockproxy/cluster/pipe"
	"lockproxy/proxy"
	"lockproxy/proxy/stats"
)

// TestDocsTellTheMetrics proves that the table of docs/operations.md has the metrics that there are, with
// their labels, and no others.
func TestDocsTellTheMetrics(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| metric | what |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var told []string
	for row := range strings.Lines(table) {
		names := strings.SplitN(row, " | ", 2)[0]
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(names, -1) {
			told = append(told, name[1])
		}
	}
	all := make(chan *prometheus.Desc, 200)
	collector{}.Describe(all)
	close(all)
	parts := regexp.MustCompile(`fqName: "(\w+)".* variableLabels: \{(.*?)\}`)
	var there []string
	for desc := range all {
		p := parts.FindStringSubmatch(desc.String())
		if p[2] != "" && p[1] != "lockproxy_build_info" {
			p[1] += "{" + p[2] + "}"
		}
		there = append(there, p[1])
	}
	for _, name := range there {
		if !slices.Contains(told, name) {
			t.Errorf("docs/operations.md does not tell of %s", name)
		}
	}
	for _, name := range told {
		if !slices.Contains(there, name) {
			t.Errorf("docs/operations.md tells of %s, which there is not", name)
		}
	}
}

// A node, or a command of it, may call itself what no label can be: it is left out, and nothing else is.
func TestMetricsOfNamesThatAreNoText(t *testing.T) {
	c := stats.CommandCount{Calls: 1}
	c.Name = "\xff"
	said := proxy.Stats{Nodes: []pipe.NodeStats{{Addr: "\xff:1"}, {Addr: "a:1"}},
		Commands: []stats.CommandCount{c}}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collector{optionsOf(fixed{stats: said}, nil)})
	all, err := r.Gather()
	if text := fmt.Sprint(all); err != nil || !strings.Contains(text, "a:1") {
		t.Errorf("%v: %s", err, text)
	}
}
