package main

import (
	"time"

	"lockproxy/integration/page"
)

// machine describes where and with what this runs.
func machine() []string {
	first := page.First
	return append(page.Machine(),
		first("redis-server", "--version")+"; "+first("redis-benchmark", "--version"),
		first("nutcracker", "--version")+"; "+first("haproxy", "-v")+"; "+first("predixy", "--version"))
}

// usage is what the machine has used, and what runs here.
func (y *yard) usage() page.Usage {
	var running time.Duration
	for _, p := range y.processes {
		if t, err := cpuTime(p.pid()); err == nil {
			running += t
		}
	}
	return page.UsageNow(running)
}
