package limits

import (
	"testing"
	"testing/fstest"
)

func TestMemoryThere(t *testing.T) {
	const machine = "MemTotal:       16000000 kB\nMemFree:        1 kB\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing to read": {nil, 0},
		"a machine":       {map[string]string{"proc/meminfo": machine}, 16000000 << 10},
		"a group without a limit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 16000000 << 10},
		"a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 << 20},
		"a service in a slice with less": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "536870912\n",
			"sys/fs/cgroup/a.slice/memory.max":           "134217728\n",
		}, 128 << 20},
		"version 1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
		}, 1 << 30},
		"version 1 without a limit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "2:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 16000000 << 10},
	} {
		files := fstest.MapFS{}
		for path, text := range tt.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryThere(files); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if Memory() < 1<<20 {
		t.Errorf("this machine has %d bytes", Memory())
	}
}
