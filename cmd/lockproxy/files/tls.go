package files

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/settings"
)

// rereadEvery is how soon a changed certificate, key or CA is noticed.
const rereadEvery = 2 * time.Second

// TLS is a TLS configuration made of PEM files, and made again when they change. Each is a new one and no
// clone, so that no session ticket given under the old files is accepted under the new ones. texts belong to
// the goroutine of Watch once that runs.
type TLS struct {
	name   string // what the names of the settings begin with: tls, say
	files  settings.PEM
	finish func(c *tls.Config, ca *x509.CertPool) // nil: no CA is named
	texts  [3]string                              // what the files held when they were read last
	latest atomic.Pointer[tlsRead]
	failed atomic.Bool // what they held then cannot be used
}

// tlsRead is what was made of the files.
type tlsRead struct {
	Config *tls.Config
	ends   map[string]time.Time // when certificates end, by setting
}

// newTLSFiles reads the files for the first time, but no half of a pair. What they make is given to finish.
func newTLSFiles(
	name string, files settings.PEM, finish func(c *tls.Config, ca *x509.CertPool),
) (*TLS, error) {
	if !files.Pair() {
		files.Cert, files.Key = "", ""
	}
	f := &TLS{name: name, files: files, finish: finish}
	var wrong [3]error
	f.texts, wrong = f.readTexts()
	return f, f.makeConfig(wrong)
}

// readTexts reads certificate, key and authority. Contents and not times of files: Kubernetes changes a link,
// and some tools write the same again. A file that cannot be read is a state too: its text is the error.
func (f *TLS) readTexts() (texts [3]string, wrong [3]error) {
	names := [3]string{"-cert", "-key", "-ca"}
	for i, file := range [3]string{f.files.Cert, f.files.Key, f.files.CA} {
		if file == "" {
			continue
		}
		text, err := readText(f.name+names[i], file)
		if texts[i], wrong[i] = string(text), err; err != nil {
			texts[i] = err.Error()
		}
	}
	return texts, wrong
}

// makeConfig makes a configuration of the texts. It changes nothing if they cannot be used.
func (f *TLS) makeConfig(wrong [3]error) error {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	wrongPair, wrongCA := errors.Join(wrong[0], wrong[1]), wrong[2]
	if f.files.Pair() && wrongPair == nil {
		pair, err := tls.X509KeyPair([]byte(f.texts[0]), []byte(f.texts[1]))
		if err != nil {
			wrongPair = fmt.Errorf("%[1]s-cert %[2]s and %[1]s-key %[3]s: need a certificate and its key, "+
				"as PEM: %[4]w", f.name, f.files.Cert, f.files.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	var ca *x509.CertPool
	if f.files.CA != "" && wrongCA == nil {
		ca = x509.NewCertPool()
		// A file without any is an error: it would trust nobody.
		if !ca.AppendCertsFromPEM([]byte(f.texts[2])) {
			wrongCA = fmt.Errorf("%s-ca %s: needs certificates, as PEM, and has none", f.name, f.files.CA)
		}
	}
	if err := errors.Join(wrongPair, wrongCA); err != nil {
		return err
	}
	// Only a whole configuration is published: a certificate without its new key would break every handshake.
	f.finish(c, ca)
	all := make(map[string]time.Time)
	if first, _ := ends(f.texts[0]); !first.IsZero() {
		all[f.name+"-cert"] = first
	}
	if _, last := ends(f.texts[2]); !last.IsZero() {
		all[f.name+"-ca"] = last
	}
	f.latest.Store(&tlsRead{c, all})
	return nil
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
	for _, f := range c.all {
		all = append(all, State{f.name, f.failed.Load(), f.latest.Load().ends})
	}
	return all
}

// rereadChanged takes over files that have changed. If they make no configuration, that is logged once, and
// the old configuration stays in use.
func (f *TLS) rereadChanged(log *slog.Logger) {
	texts, wrong := f.readTexts()
	if texts == f.texts {
		return
	}
	// Noted before it is known whether they can be used, so a mistake is logged once.
	f.texts = texts
	err := f.makeConfig(wrong)
	f.failed.Store(err != nil)
	if err != nil {
		log.Error("TLS files have changed and cannot be used: those read before stay in use", "err", err)
		return
	}
	there := slices.DeleteFunc([]string{f.files.Cert, f.files.Key, f.files.CA},
		func(name string) bool { return name == "" })
	log.Info("TLS files reread", "files", there)
}

// Watch rereads the files until ctx ends. It blocks until then, or returns at once if there are no files.
func (c Certs) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for len(c.all) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, f := range c.all {
			f.rereadChanged(log)
		}
	}
}

// ends are when the certificates in the text of a file end, the first and the last of them. Zero: there are
// none. Of an authority's file the last one counts: it is good as long as any of its certificates is.
func ends(text string) (first, last time.Time) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
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
	return first, last
}
