package commands_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock/locks"
)

// infoNode is a master with that text as its INFO.
func infoNode(lines ...string) func([]string) string {
	text := strings.Join(lines, "\r\n") + "\r\n"
	return saying(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
}

func TestInfo(t *testing.T) {
	a := infoNode("# Server", "redis_version:7.0.15", "redis_mode:cluster", "os:Linux", "tcp_port:7001",
		"process_id:12", "arch_bits:64",
		"", "# Clients", "connected_clients:3", "maxclients:100", "client_recent_max_input_buffer:10",
		"tracking_clients:1",
		"", "# Memory", "used_memory:1048576", "used_memory_human:1.00M", "mem_fragmentation_ratio:1.50",
		"used_memory_peak_perc:98.95%", "maxmemory_policy:noeviction", "number_of_functions:3",
		"used_memory_lua:2048", "used_memory_lua_human:2.00K",
		"", "# Persistence", "loading:0", "rdb_changes_since_last_save:3", "rdb_last_bgsave_status:ok",
		"rdb_last_save_time:100",
		"", "# Stats", "total_commands_processed:5", "keyspace_hits:7", "instantaneous_input_kbps:0.07",
		"", "# Replication", "role:master", "connected_slaves:1",
		"slave0:ip=10.0.0.7,port=1,state=online,offset=0,lag=1", "master_replid:aa",
		"", "# CPU", "used_cpu_sys:1.500000",
		"", "# Commandstats",
		"cmdstat_get:calls=1,usec=10,usec_per_call=10.00,rejected_calls=0,failed_calls=0",
		"cmdstat_flushall:calls=2,usec=10,usec_per_call=5.00",
		"cmdstat_config|set:calls=2,usec=2,usec_per_call=1.00",
		"", "# Latencystats", "latency_percentiles_usec_get:p50=1.003,p99=5.000",
		"", "# Cluster", "cluster_enabled:1",
		"", "# Keyspace", "db0:keys=10,expires=1,avg_ttl=1000")
	b := infoNode("# Server", "redis_version:7.0.14", "redis_mode:cluster", "os:Linux", "tcp_port:7002",
		"process_id:13", "arch_bits:64",
		"", "# Clients", "connected_clients:4", "maxclients:100", "client_recent_max_input_buffer:30",
		"tracking_clients:1",
		"", "# Memory", "used_memory:2097152", "used_memory_human:2.00M", "mem_fragmentation_ratio:1.25",
		"used_memory_peak_perc:9.10%", "maxmemory_policy:noeviction", "number_of_functions:3",
		"used_memory_lua:3072", "used_memory_lua_human:3.00K",
		"", "# Persistence", "loading:1", "rdb_changes_since_last_save:4", "rdb_last_bgsave_status:err",
		"rdb_last_save_time:99",
		"", "# Stats", "total_commands_processed:5", "keyspace_hits:8", "instantaneous_input_kbps:1.10",
		"", "# Replication", "role:master", "connected_slaves:0", "master_replid:bb",
		"", "# CPU", "used_cpu_sys:0.250000",
		"", "# Commandstats",
		"cmdstat_get:calls=3,usec=50,usec_per_call=16.67,rejected_calls=1,failed_calls=0",
		"cmdstat_set:calls=1,usec=1,usec_per_call=1.00",
		"cmdstat_flushall:calls=3,usec=9,usec_per_call=3.00",
		"cmdstat_config|set:calls=2,usec=4,usec_per_call=2.00",
		"", "# Latencystats", "latency_percentiles_usec_get:p50=2.007,p99=4.000",
		"", "# Cluster", "cluster_enabled:1",
		"", "# Keyspace", "db0:keys=20,expires=3,avg_ttl=2000")
	f := newSession(t, a, b)
	f.Server.Told = commands.Facts{
		Version: "0.1.0", Upstream: "cluster", Addr: "127.0.0.1:6380", RunID: "cc",
		Started:    time.Now().Add(-25 * time.Hour),
		MaxClients: 10000,
		Stats: commands.Stats{Clients: 9, Tracking: 1, Calls: 77,
			Locks: locks.Stats{locks.GrantedWrite: 2, locks.GrantedRead: 3}},
	}
	got := f.Do("INFO")
	if v, _, err := resp.Parse([]byte(got)); err != nil || v.Kind != '$' {
		t.Fatalf("%q", got)
	}
	for _, line := range []string{
		"redis_version:7.0.15", "redis_mode:standalone", "os:Linux", "tcp_port:6380",
		fmt.Sprint("process_id:", os.Getpid()), "arch_bits:64", "uptime_in_days:1", "run_id:cc",
		"connected_clients:9", "maxclients:10000", "client_recent_max_input_buffer:30", "tracking_clients:1",
		"number_of_functions:3", "used_memory_lua_human:3.00K",
		"used_memory:3145728", "used_memory_human:3.00M", "mem_fragmentation_ratio:1.50",
		"used_memory_peak_perc:98.95%", "maxmemory_policy:noeviction",
		"loading:1", "rdb_changes_since_last_save:7", "rdb_last_bgsave_status:err", "rdb_last_save_time:99",
		"total_commands_processed:77", "keyspace_hits:15", "instantaneous_input_kbps:1.17",
		"role:master", "connected_slaves:0", "master_replid:aa", "used_cpu_sys:1.750000",
		"cmdstat_get:calls=4,usec=60,usec_per_call=15.00,rejected_calls=1,failed_calls=0",
		"cmdstat_set:calls=1,usec=1,usec_per_call=1.00",
		"cmdstat_flushall:calls=3,usec=9,usec_per_call=3.00",
		"cmdstat_config|set:calls=2,usec=2,usec_per_call=1.00",
		"latency_percentiles_usec_get:p50=2.007,p99=5.000", "cluster_enabled:0",
		"db0:keys=30,expires=4,avg_ttl=1750",
		"lockproxy_version:0.1.0", "# Lockproxy", "upstream:cluster", "upstream_masters:2",
		"upstream_masters_silent:0", "locks_granted:5",
	} {
		if !strings.Contains(got, "\r\n"+line+"\r\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, leak := range []string{"10.0.0.7", "slave0", "tcp_port:7001", "tcp_port:7002"} {
		if strings.Contains(got, leak) {
			t.Errorf("%s leaks", leak)
		}
	}
	if sections := strings.Count(got, "# "); sections != 12 || t.Failed() {
		t.Errorf("%d sections:\n%s", sections, got)
	}
	f.User.Proto = 3
	if got := f.Do("INFO"); !strings.HasPrefix(got, "=") ||
		!strings.Contains(got[:30], "\r\ntxt:# Server\r\n") {
		t.Errorf("%.50q", got)
	}
}

func TestInfoSections(t *testing.T) {
	f := newSession(t, infoNode("# Keyspace", "db0:keys=1,expires=0,avg_ttl=0"))
	if got := f.Do("INFO keyspace"); got != "$44\r\n# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n\r\n" {
		t.Errorf("%q", got)
	}
	if got := f.Do("INFO LockProxy"); !strings.Contains(got, "\r\n# Lockproxy\r\n") ||
		strings.Contains(got, "# Server") || len(f.Sent) > 0 {
		t.Errorf("%q, sent %q", got, f.Sent)
	}
	if got := f.Do("INFO keyspace server"); !strings.Contains(got, "\r\n# Server\r\n") ||
		strings.Contains(got, "# Lockproxy") {
		t.Errorf("%q", got)
	}
}

// A server that cannot tell, as the one in memory, does not keep the proxy from
// telling what it knows.
func TestInfoOfSilentServers(t *testing.T) {
	f := newSession(t, saying("-ERR section (server) is not supported\r\n"))
	if got := f.Do("INFO server"); !strings.Contains(got, "redis_mode:standalone") {
		t.Errorf("%q", got)
	}
	if got := f.Do("INFO keyspace"); got != "-ERR section (server) is not supported\r\n" {
		t.Errorf("%q", got)
	}
	f.Masters = append(f.Masters, infoNode("# Keyspace", "db0:keys=1,expires=0,avg_ttl=0"))
	if got := f.Do("INFO"); !strings.Contains(got, "upstream_masters:2\r\nupstream_masters_silent:1\r\n") {
		t.Errorf("%q", got)
	}
}

// Valkey calls redis_mode server_mode, and so does the proxy before it.
func TestInfoOfValkey(t *testing.T) {
	f := newSession(t, infoNode("# Server", "redis_version:7.2.4", "server_name:valkey",
		"valkey_version:9.1.2", "server_mode:cluster",
		"listener0:name=tcp,bind=10.0.0.1,port=7001"))
	f.Server.Version = "7.2.4"
	got := f.Do("INFO server")
	for _, line := range []string{"redis_version:7.2.4", "server_name:valkey", "valkey_version:9.1.2",
		"server_mode:standalone"} {
		if !strings.Contains(got, line+"\r\n") {
			t.Errorf("%s is missing: %s", line, got)
		}
	}
	if strings.Contains(got, "redis_mode") || strings.Contains(got, "listener") {
		t.Errorf("two modes, or the address of a node: %s", got)
	}
}
