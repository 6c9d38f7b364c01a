package files

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/settings"
)

// rereadEvery is how soon a changed certificate, key or CA is noticed.
const rereadEvery = 2 * time.Second

// TLS is a TLS configuration made of PEM files, and made again when they change. Each is a new one and no
// clone, so that no session ticket given under the old files is accepted under the new ones. sum belongs to
// the goroutine of Watch once that runs.
type TLS struct {
	name   string // what the names of the settings begin with: tls, say
	files  settings.PEM
	finish func(c *tls.Config, ca *x509.CertPool) // nil: no CA is named
	sum    [sha256.Size]byte                      // of what the files held when they were read last
	latest atomic.Pointer[tlsRead]
	failed atomic.Bool // what they held then cannot be used
}

// tlsRead is what was made of the files.
type tlsRead struct {
	Config *tls.Config
	ends   map[string]time.Time // when certificates end, by setting
}

// newTLSFiles reads the files for the first time. What they make is given to finish. The sum is taken first:
// what changes while they are read is read again.
func newTLSFiles(
	name string, files settings.PEM, finish func(c *tls.Config, ca *x509.CertPool),
) (*TLS, error) {
	f := &TLS{name: name, files: files, finish: finish}
	f.sum = f.digest()
	return f, f.readFiles()
}

// readFiles makes a configuration of the files. It changes nothing if they cannot be used.
func (f *TLS) readFiles() error {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var ca *x509.CertPool
	var wrongPair, wrongCA error
	if f.files.Pair() {
		c.Certificates = make([]tls.Certificate, 1)
		c.Certificates[0], wrongPair = readPair(f.name+"-cert", f.files.Cert, f.name+"-key", f.files.Key)
	}
	if f.files.CA != "" {
		ca, wrongCA = readPool(f.name+"-ca", f.files.CA)
	}
	if err := errors.Join(wrongPair, wrongCA); err != nil {
		return err
	}
	// Only a whole configuration is published: a certificate without its new key would break every handshake.
	f.finish(c, ca)
	all := make(map[string]time.Time)
	if first, _ := ends(f.files.Cert); !first.IsZero() {
		all[f.name+"-cert"] = first
	}
	if _, last := ends(f.files.CA); !last.IsZero() {
		all[f.name+"-ca"] = last
	}
	f.latest.Store(&tlsRead{c, all})
	return nil
}

// there are the names of the files.
func (f *TLS) there() []string {
	all := []string{f.files.Cert, f.files.Key, f.files.CA}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// Config is the configuration for a new connection. Safe for concurrent use.
func (f *TLS) Config() *tls.Config { return f.latest.Load().Config }

// ForClient is Config as a tls.Config wants it.
func (f *TLS) ForClient(*tls.ClientHelloInfo) (*tls.Config, error) { return f.Config(), nil }

// Source is Config for the data plane, where nil means no TLS.
func (f *TLS) Source() func() *tls.Config {
	if f == nil {
		return nil
	}
	return f.Config
}

// State is how it went when something was read last. A State is for the metrics, and for nothing else.
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

// digest differs between two states of the files. A file that cannot be read is a state too. Contents and not
// times of files: Kubernetes changes a link, and some tools write the same again.
func (f *TLS) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range f.there() {
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

// rereadChanged takes over files that have changed. If they make no configuration, that is logged once, and
// the old configuration stays in use.
func (f *TLS) rereadChanged(log *slog.Logger) {
	sum := f.digest()
	if sum == f.sum {
		return
	}
	// Noted before it is known whether they can be used, so a mistake is logged once.
	f.sum = sum
	err := f.readFiles()
	f.failed.Store(err != nil)
	if err != nil {
		log.Error("TLS files have changed and cannot be used: those read before stay in use", "err", err)
		return
	}
	log.Info("TLS files reread", "files", f.there())
}

// Watch rereads the files until ctx ends. It blocks until then, or returns at once if there are no files.
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
			f.rereadChanged(log)
		}
	}
}

// ends are when the certificates in a file end, the first and the last of them. Zero: there are none. Of an
// authority's file the last one counts: it is good as long as any of its certificates is.
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
