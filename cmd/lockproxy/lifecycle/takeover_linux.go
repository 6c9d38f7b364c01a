package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of conn, which must be one of the same user: nobody else may have the
// ports.
func peer(conn *net.UnixConn) (pid int, err error) {
	sc, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var of *unix.Ucred
	if ctl := sc.Control(func(fd uintptr) {
		of, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctl != nil || err != nil {
		return 0, errors.Join(ctl, err)
	}
	// The mode of the path says the same for those who connect. This is also for whoever listens there.
	if of.Uid != uint32(os.Geteuid()) {
		return 0, fmt.Errorf("process %d belongs to user %d, and this one to user %d: a process takes over "+
			"from one of the same user alone", of.Pid, of.Uid, os.Geteuid())
	}
	return int(of.Pid), nil
}

// sendFiles sends descriptors with a text. The text and the descriptors go in one message, which a stream
// socket delivers together with its first byte.
func sendFiles(conn *net.UnixConn, text string, files []*os.File) error {
	if len(files) > mostPorts || len(text) > longestNames {
		return fmt.Errorf("%d ports are too many: %d can be handed over", len(files), mostPorts)
	}
	var fds []int
	for _, f := range files {
		sc, err := f.SyscallConn() // Fd could make the socket one that blocks
		if err != nil {
			return err
		}
		if err := sc.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
	}
	// The zero byte ends the text: names have none.
	_, _, err := conn.WriteMsgUnix([]byte(text+"\x00"), unix.UnixRights(fds...), nil)
	return err
}

// receiveFiles receives what sendFiles has sent. On an error files may have some, which the caller owns.
func receiveFiles(conn *net.UnixConn) (text string, files []*os.File, err error) {
	buf, rights := make([]byte, longestNames+1), make([]byte, unix.CmsgSpace(4*mostPorts))
	n, m, _, _, err := conn.ReadMsgUnix(buf, rights)
	if err != nil {
		return "", nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return "", nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return "", files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "port"))
		}
	}
	for n > 0 && buf[n-1] != 0 { // the text has not come whole
		more, err := conn.Read(buf[n:])
		if n += more; err != nil || n == len(buf) {
			return "", files, errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
	if n == 0 {
		return "", files, io.ErrUnexpectedEOF
	}
	return string(buf[:n-1]), files, nil
}
