package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// rereadEvery is how soon a changed certificate, key or CA is noticed.
const rereadEvery = 2 * time.Second

// tlsFiles is a TLS configuration made of PEM files, and made again when they change. Each is a new one and
// no clone, so that no session ticket given under the old files is accepted under the new ones.
type tlsFiles struct {
	files  []string
	build  func() (*tls.Config, error)
	sum    [sha256.Size]byte // of what the files held when they were read last
	latest atomic.Pointer[tls.Config]
}

// newTLSFiles reads the files for the first time. An empty name is no file.
func newTLSFiles(build func(*Values) (*tls.Config, error), v *Values, files ...string) (*tlsFiles, error) {
	f := &tlsFiles{files: files, build: func() (*tls.Config, error) { return build(v) }}
	f.sum = f.digest()
	c, err := f.build()
	if err != nil {
		return nil, err
	}
	f.latest.Store(c)
	return f, nil
}

// config is the configuration for a new connection. Safe for concurrent use.
func (f *tlsFiles) config() *tls.Config { return f.latest.Load() }

// forClient is config as a tls.Config wants it.
func (f *tlsFiles) forClient(*tls.ClientHelloInfo) (*tls.Config, error) { return f.config(), nil }

// source is config for the data plane, where nil means no TLS.
func (f *tlsFiles) source() func() *tls.Config {
	if f == nil {
		return nil
	}
	return f.config
}

// digest differs between two states of the files. A file that cannot be read is a state too.
func (f *tlsFiles) digest() (sum [sha256.Size]byte) {
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
func (f *tlsFiles) reread(log *slog.Logger) {
	sum := f.digest()
	if sum == f.sum {
		return
	}
	f.sum = sum
	c, err := f.build()
	if err != nil {
		log.Error("TLS files have changed and cannot be used: those read before stay in use", "err", err)
		return
	}
	f.latest.Store(c)
	log.Info("TLS files reread", "files", f.files)
}

// watch rereads the files until ctx ends.
func (c certs) watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for c.clients != nil || c.upstream != nil || c.admin != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, f := range []*tlsFiles{c.clients, c.upstream, c.admin} {
			if f != nil {
				f.reread(log)
			}
		}
	}
}
