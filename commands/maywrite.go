package commands

import (
	"bytes"
	"slices"
	"strings"

	"lockproxy/internal/resp"
)

// ScriptKind is how a command names the script that it runs: by its first argument.
type ScriptKind uint8

const (
	noScript       ScriptKind = iota
	ScriptSource              // EVAL
	ScriptSHA                 // EVALSHA
	ScriptFunction            // FCALL
)

// MayWrite says whether the command, with these arguments, may write or reach the replicas: CLIENT PAUSE
// WRITE holds such commands back. tx is the client's transaction, for EXEC. Of a script only its first line
// tells; of a function, its flags. ask says that the function is args[1], and writes unless it is among
// FunctionsThatRead.
func (c *Command) MayWrite(args [][]byte, tx Transaction, scripts *Scripts) (writes, ask bool) {
	switch {
	case c.Flags&RunsQueue != 0:
		return tx.Writes, false
	case c.Script == ScriptFunction:
		writes = c.Flags&ReadOnly == 0
		return writes, writes && len(args) > 1
	case c.Script == noScript:
		return c.Flags&(Write|Replicates) != 0, false
	}
	var source []byte
	switch {
	case len(args) < 2:
	case c.Script == ScriptSource:
		source = args[1]
	default:
		source, _ = scripts.Get(args[1])
	}
	if flags, ok := scriptFlags(source); ok {
		return !slices.Contains(flags, "no-writes"), false
	}
	return c.Flags&ReadOnly == 0, false
}

// MayPublish says that the command may publish messages. A script or a transaction may do so in a way that
// nobody sees from outside.
func (c *Command) MayPublish() bool {
	return c.Flags&(Scripted|RunsQueue) != 0 || c.Flags&(PubSub|InSubscriber) == PubSub
}

// MeetsData says that the command works on keys or reaches the replicas, which a client in MONITOR
// may not do.
func (c *Command) MeetsData() bool {
	writes, _ := c.MayWrite(nil, Transaction{}, nil)
	return c.data || writes || c.Flags&LockVerb != 0
}

// scriptFlags are the flags in the first line of a script, "#!lua flags=no-writes,allow-stale". ok says that
// the script has such a line, in a form that Redis understands. A line that Redis does not understand tells
// nothing: the node refuses the script.
func scriptFlags(source []byte) (flags []string, ok bool) {
	line, _, ok := bytes.Cut(source, []byte("\n"))
	words := strings.Fields(string(line[:min(len(line), maxShebang)]))
	if !ok || len(line) > maxShebang || !bytes.HasPrefix(line, []byte("#!")) || words[0] != "#!lua" {
		return nil, false
	}
	for _, word := range words[1:] {
		list, isFlags := strings.CutPrefix(word, "flags=")
		if !isFlags {
			return nil, false
		}
		if list != "" {
			flags = append(flags, strings.Split(list, ",")...)
		}
	}
	return flags, true
}

// maxShebang is how many bytes of a first line are looked at.
const maxShebang = 1024

// FunctionsThatRead are the names of the functions that do not write, by a reply of FUNCTION LIST
// in RESP2. What it does not name may write. An unreadable reply names none.
func FunctionsThatRead(reply []byte) map[string]bool {
	names := make(map[string]bool)
	v, _, err := resp.Parse(reply)
	if err != nil {
		return names
	}
	for _, library := range v.Elems {
		for _, f := range resp.Field(library, "functions").Elems {
			for _, flag := range resp.Field(f, "flags").Elems {
				if flag.Text() == "no-writes" {
					names[resp.Field(f, "name").Text()] = true
				}
			}
		}
	}
	return names
}
