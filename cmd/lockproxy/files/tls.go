package files

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/settings"
)

// rereadEvery is how soon a changed certificate, key or CA is noticed.
const rereadEvery = 2 * time.Second

// TLS is a TLS configuration made of PEM files, and made again when they change. Each is a new one and
// no clone, so that no session ticket given under the old files is accepted under the new ones.
type TLS struct {
	name   string   // what the names of the settings begin with: tls, say
	files  []string // certificate, key, CA; "" for one that is not there
	build  func() (*tls.Config, error)
	sum    [sha256.Size]byte // of what the files held when they were read last
	latest atomic.Pointer[tlsRead]
	failed atomic.Bool // what they held then cannot be used
}

// tlsRead is what was made of the files.
type tlsRead struct {
	Config *tls.Config
	ends   map[string]time.Time // when certificates end, by setting
}

// newTLSFiles reads the files for the first time: certificate, key, CA. An empty name is no file.
func newTLSFiles(name string, build func(*settings.Values) (*tls.Config, error), v *settings.Values,
	files ...string) (*TLS, error) {
	f := &TLS{name: name, files: files, build: func() (*tls.Config, error) { return build(v) }}
	f.sum = f.digest()
	return f, f.read()
}

// read makes a configuration of the files.
func (f *TLS) read() error {
	c, err := f.build()
	if err != nil {
		return err
	}
	all := make(map[string]time.Time)
	if first, _ := ends(f.files[0]); !first.IsZero() {
		all[f.name+"-cert"] = first
	}
	if _, last := ends(f.files[2]); !last.IsZero() {
		all[f.name+"-ca"] = last
	}
	f.latest.Store(&tlsRead{c, all})
	return nil
}

// Config is the configuration for a new connection. Safe for concurrent use.
func (f *TLS) Config() *tls.Config { return f.latest.Load().Config }

// ForClient is config as a tls.Config wants it.
func (f *TLS) ForClient(*tls.ClientHelloInfo) (*tls.Config, error) { return f.Config(), nil }

// Source is config for the data plane, where nil means no TLS.
func (f *TLS) Source() func() *tls.Config {
	if f == nil {
		return nil
	}
	return f.Config
}

// State is how it went when something was read last.
type State struct {
	Of     string               // the name of the setting, or what such names begin with
	Failed bool                 // what it says now cannot be used: what was read before stays in use
	Ends   map[string]time.Time // when certificates end, by setting
}

// States are those of all TLS files.
func (c Certs) States() (all []State) {
	for _, f := range c.all() {
		all = append(all, State{f.name, f.failed.Load(), f.latest.Load().ends})
	}
	return all
}

// digest differs between two states of the files. A file that cannot be read is a state too.
func (f *TLS) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range f.files {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			text = []byte(err.Error())
		}
		one := sha256.Sum256(text)
		h.Write(one[:])
	}
	h.Sum(sum[:0])
	return sum
}

// reread takes over files that have changed. If they make no configuration, that is logged once, and the old
// configuration stays in use.
func (f *TLS) reread(log *slog.Logger) {
	sum := f.digest()
	if sum == f.sum {
		return
	}
	f.sum = sum
	err := f.read()
	f.failed.Store(err != nil)
	if err != nil {
		log.Error("TLS files have changed and cannot be used: those read before stay in use", "err", err)
		return
	}
	log.Info("TLS files reread", "files", slices.DeleteFunc(slices.Clone(f.files),
		func(name string) bool { return name == "" }))
}

// Watch rereads the files until ctx ends.
func (c Certs) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for len(c.all()) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, f := range c.all() {
			f.reread(log)
		}
	}
}

// ends are when the certificates in a file end, the first and the last of them. Zero: there are none.
func ends(file string) (first, last time.Time) {
	text, _ := os.ReadFile(file)
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return first, last
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // a key, say
		}
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
}
