package resp

import (
	"bytes"

	"github.com/tidwall/redcon"
)

// Split returns the arguments of cmd, one whole command that InputGuard.Next let
// through, in the memory of dst. raw is the command as multibulk RESP: cmd
// itself, or an encoding of an inline command in new memory.
//
// Arguments and raw alias cmd where they can: copy what outlives it. A command
// without arguments ("*0", "*-1", an empty line), which Redis ignores, has
// neither. An error is a ProtocolError and cannot happen behind InputGuard.Next.
func Split(cmd []byte, dst [][]byte) (args [][]byte, raw []byte, err error) {
	if len(cmd) > 1 && cmd[0] == '*' {
		if cmd[1] == '0' || cmd[1] == '-' {
			return dst[:0], nil, nil
		}
		if dst == nil {
			n, _ := number(cmd, 1)
			dst = make([][]byte, 0, min(n, len(cmd)/5)) // "$0\r\n\r\n" has six bytes
		}
		// redcon is less strict about lengths: InputGuard has checked them.
		whole, args, _, _, err := redcon.ReadNextCommand(cmd, dst)
		if err != nil || !whole {
			return args[:0], nil, errCount
		}
		return args, cmd, nil
	}
	args, err = words(line(cmd), dst[:0])
	if err != nil || len(args) == 0 {
		return args[:0], nil, err
	}
	size := len(cmd) + 16*(len(args)+1) // room for the lengths
	return args, AppendCommand(make([]byte, 0, size), args...), nil
}

// CloneArgs copies arguments that alias a read buffer, for what goes on when that has others.
func CloneArgs(args [][]byte) [][]byte {
	copied := make([][]byte, len(args))
	for i, arg := range args {
		copied[i] = bytes.Clone(arg)
	}
	return copied
}
