package main

import "lockproxy/integration/page"

// machine describes where and with what this runs.
func machine() []string {
	first := page.First
	return append(page.Machine(),
		first("redis-server", "--version")+"; "+first("redis-benchmark", "--version"),
		first("nutcracker", "--version")+"; "+first("haproxy", "-v")+"; "+first("predixy", "--version"))
}
