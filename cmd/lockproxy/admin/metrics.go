package admin

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"lockproxy/cmd/lockproxy/files"
	"lockproxy/proxy"
)

// newRegistry returns the metrics of /metrics: the table (table.go), and the process.
func newRegistry(o Options) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collector{o},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// metric is a row of the table. Counters end in _total; base units, as Prometheus wants it: seconds and
// bytes.
type metric struct {
	kind       prometheus.ValueType // histogram: prometheus.UntypedValue
	name, help string
	labels     []string
	tell       func(s *scrape, to teller)
}

const (
	counter   = prometheus.CounterValue
	gauge     = prometheus.GaugeValue
	histogram = prometheus.UntypedValue
)

// scrape is what the values of one scrape are read from. It belongs to one Collect, and is read by each row
// of the table.
type scrape struct {
	proxy.Stats
	ready           bool
	version, commit string
	reloads         []files.State
}

// teller takes the values of a metric. ch is read by the registry while it collects; a teller is used within
// one scrape.
type teller struct {
	kind prometheus.ValueType
	desc *prometheus.Desc
	ch   chan<- prometheus.Metric
}

func (t teller) number(n float64, labels ...string) {
	t.pass(prometheus.NewConstMetric(t.desc, t.kind, n, labels...))
}

// times takes a histogram: below is how many values are not above each bound.
func (t teller) times(count uint64, sum float64, below map[float64]uint64, labels ...string) {
	t.pass(prometheus.NewConstHistogram(t.desc, count, sum, below, labels...))
}

// pass leaves out what a node of the upstream has given a name that is no UTF-8, and so no label.
func (t teller) pass(m prometheus.Metric, err error) {
	if err == nil {
		t.ch <- m
	}
}

type amount interface{ ~int | ~int64 | ~uint64 }

// one is the value of a metric without labels.
func one[N amount](value func(s *scrape) N) func(*scrape, teller) {
	return func(s *scrape, to teller) { to.number(float64(value(s))) }
}

// each are the values of a metric with one label, by what stands there.
func each[N amount](values func(s *scrape) map[string]N) func(*scrape, teller) {
	return func(s *scrape, to teller) {
		for label, n := range values(s) {
			to.number(float64(n), label)
		}
	}
}

// collector turns Stats into metrics. Nothing is counted here: each scrape reads what the proxy counts for
// itself, so what nobody scrapes costs nothing.
type collector struct{ o Options }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		ch <- desc(m.name, m.help, m.labels...)
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	p := c.o.Program
	// Once for all metrics: numbers that belong together are of one moment.
	s := &scrape{p.Stats(), p.Ready() == nil, c.o.Version, c.o.Commit, p.Reloads()}
	for _, m := range metrics {
		m.tell(s, teller{m.kind, desc(m.name, m.help, m.labels...), ch})
	}
}

// desc is the description of a metric. The same arguments make an equal one, so Describe and Collect need not
// share it.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lockproxy_"+name, help, labels, nil)
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
