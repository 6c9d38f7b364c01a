//go:build !linux

package lifecycle

import (
	"errors"
	"net"
	"os"
)

var errTakeover = errors.New("takeover works on Linux alone")

func peer(*net.UnixConn) (pid int, err error) { return 0, errTakeover }

func sendFiles(*net.UnixConn, string, []*os.File) error { return errTakeover }

func receiveFiles(*net.UnixConn) (text string, files []*os.File, err error) {
	return "", nil, errTakeover
}
