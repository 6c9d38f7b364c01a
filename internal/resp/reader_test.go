package resp

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	r := Reader{From: iotest.OneByteReader(strings.NewReader("+OK\r\n*2\r\n$1\r\na\r\n:7\r\n-ERR " +
		"no\r\n$9\r\n")), Most: 20}
	if v, _, err := r.Next(); err != nil || v.Text() != "OK" {
		t.Fatalf("%+v %v", v, err)
	}
	if v, _, err := r.Next(); err != nil || len(v.Elems) != 2 || v.Elems[1].Int != 7 {
		t.Fatalf("%+v %v", v, err)
	}
	if v, _, err := r.Next(); err != nil || v.Err() != "ERR no" {
		t.Fatalf("%+v %v", v, err)
	}
	if v, _, err := r.Next(); err != io.EOF {
		t.Fatalf("%+v %v", v, err)
	}
	// No node makes it take more than Most, whatever length it declares.
	endless := Reader{From: io.MultiReader(strings.NewReader("$1000000\r\n"), zeros{}), Most: 10_000}
	if v, _, err := endless.Next(); err == nil || len(endless.buf) > 40_000 {
		t.Fatalf("%d bytes of %+v, %v", len(endless.buf), v, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
