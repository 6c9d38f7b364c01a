package admin

import (
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
type reloads struct{ p Program }

// Describe implements prometheus.Collector.
func (r reloads) Describe(ch chan<- *prometheus.Desc) { ch <- certificateLeft; ch <- reloadSuccess }

// Collect implements prometheus.Collector.
func (r reloads) Collect(ch chan<- prometheus.Metric) {
	for _, read := range r.p.Reloads() {
		ch <- prometheus.MustNewConstMetric(reloadSuccess, prometheus.GaugeValue,
			float64(oneIf(!read.Failed)), read.Of)
		for setting, end := range read.Ends {
			ch <- prometheus.MustNewConstMetric(certificateLeft, prometheus.GaugeValue,
				time.Until(end).Seconds(), setting)
		}
	}
}
