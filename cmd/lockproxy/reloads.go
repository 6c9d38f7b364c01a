package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	certificateLeft = desc("certificate_remaining_seconds",
		"How long a certificate in use is still good: the first to end of its chain, of an authority's file "+
			"the last.", "setting")
	reloadSuccess = desc("reload_success",
		"1 if what was read last could be used, 0 if what was read before it stays in use: settings, "+
			"certificates, passwords.", "of")
)

// reloads are the metrics of what is reread while the proxy runs.
type reloads struct{ p *program }

// Describe implements prometheus.Collector.
func (r reloads) Describe(ch chan<- *prometheus.Desc) { ch <- certificateLeft; ch <- reloadSuccess }

// Collect implements prometheus.Collector.
func (r reloads) Collect(ch chan<- prometheus.Metric) {
	tell := func(of string, failed bool) {
		ch <- prometheus.MustNewConstMetric(reloadSuccess, prometheus.GaugeValue,
			float64(oneIf(!failed)), of)
	}
	tell("settings", r.p.refused.Load())
	for _, f := range r.p.certs.all() {
		tell(f.name, f.failed.Load())
		for setting, end := range f.latest.Load().ends {
			ch <- prometheus.MustNewConstMetric(certificateLeft, prometheus.GaugeValue,
				time.Until(end).Seconds(), setting)
		}
	}
	for _, w := range r.p.passwords.read() {
		tell(w.setting, w.failed.Load())
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
