// Package admin is the HTTP listener for those who run the proxy.
//
//	onlyHosts --> /healthz, /readyz          for probes, which give no password
//	         \--> gate --> /metrics, /debug   counters, profiles
//	                  \--> onlyPages --> page (package adminpage)
package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/proxy"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Program is what the listener shows of the program. Safe for concurrent use.
type Program interface {
	// Stats is called once for each scrape.
	Stats() proxy.Stats
	// Ready says why commands cannot be served now, or nil.
	Ready() error
	// Source is the data plane as the page sees it; nil: there is none yet.
	Source() adminpage.Source
	// Reloads says how it went when what the settings name was read last.
	Reloads() []files.State
}

// Options are what the listener is made of. What may change while it runs, Values and Password, is asked for
// with each request.
type Options struct {
	Program         Program
	Values          func() *settings.Values
	TLS             *files.TLS      // nil: none
	Password        *cluster.Logins // nil: that of the settings
	Audit           proxy.Audit     // nil: there is none
	Version, Commit string
	Log             *slog.Logger
}

// Serve answers on ln until stop. stop closes ln, and waits a second at most for requests that are being
// answered. It blocks until then, and is called once.
func Serve(ln net.Listener, o Options) (stop func()) {
	v := o.Values()
	// Each handshake asks for the configuration, so a new certificate needs no restart.
	if o.TLS != nil {
		ln = tls.NewListener(ln, &tls.Config{GetConfigForClient: o.TLS.ForClient})
	}
	page := o.newPage()
	srv := &http.Server{
		Handler:     boundedBodies(onlyHosts(names(v), o.handler(newGate(o), page))),
		ConnContext: gateContext,
		// No WriteTimeout, which would end the stream of the page: that has a time-out for each write.
		ReadHeaderTimeout: askPatience,
		IdleTimeout:       time.Minute,
		// What browsers and scanners do wrong is no warning.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() { // ends in stop
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin ends", "err", err)
		}
	}()
	o.Log.Info("admin listening", "addr", ln.Addr())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// First, since Shutdown waits for streams, which would not end by themselves.
		page.Close()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-done
	}
}

// askPatience is how long a request may take to come: its header, and its body.
const askPatience = 5 * time.Second

// boundedBodies bounds how long a body may take to come. ReadTimeout would, and end the stream of the page.
func boundedBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(askPatience))
		}
		next.ServeHTTP(w, r)
	})
}

// tellReady answers /readyz: 200 while the proxy serves anything at all, since a balancer that took it away
// for what is wrong at the upstream would take all proxies away. strict is for people and alerts: 503 while
// anything is not served.
func tellReady(w http.ResponseWriter, err error, strict bool, reasons func() bool) {
	if err == nil {
		io.WriteString(w, "ready\n")
		return
	}
	// Reasons name nodes and errors of the upstream, which are not for everybody who can reach a probe's
	// address.
	why := "the reason is told to those who give admin-password"
	if reasons() {
		why = err.Error()
	}
	if errors.As(err, new(proxy.InPart)) && !strict {
		io.WriteString(w, "ready, but not for every command\n"+why+"\n")
		return
	}
	http.Error(w, why, http.StatusServiceUnavailable)
}

// handler serves /healthz and /readyz to all, and what is inside to those whom gate lets in.
func (o Options) handler(gate *gate, page http.Handler) http.Handler {
	mux := http.NewServeMux()
	// Anything that is not named here is behind the gate.
	mux.Handle("/", gate.only(onlyPages(o.Values, page, o.inside())))
	// It asks nothing: a process that answers is alive, and a restart would not help one whose upstream is
	// away.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		tellReady(w, o.Program.Ready(), r.URL.Query().Has("strict"),
			// a function, since judging may block: it is done only if there is a reason to tell
			func() bool { return gate.judgeRequest(r) == letIn })
	})
	return mux
}

// inside serves /metrics and, with admin-pprof, /debug/pprof.
func (o Options) inside() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(o), promhttp.HandlerOpts{}))
	// Off unless it is asked for: a profile takes time of the processor, and cmdline shows all flags,
	// passwords among them.
	if o.Values().Admin.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
