package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"lockproxy/proxy"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// startAdmin serves the admin HTTP until stop.
func (p *program) startAdmin() (stop func(), err error) {
	v := p.config.Values()
	if v.Admin == "" {
		return func() {}, nil
	}
	ln, err := p.ports.listen("admin", v.Admin)
	if err != nil {
		return nil, fmt.Errorf("admin %s: %w", v.Admin, err)
	}
	if p.certs.Admin != nil {
		ln = tls.NewListener(ln, &tls.Config{GetConfigForClient: p.certs.Admin.ForClient})
	}
	page := p.newAdminPage()
	inside := onlyPages(p.config.Values, page, adminInside(&p.state, v.AdminPprof, reloads{p}))
	srv := &http.Server{
		Handler:           onlyHosts(adminNames(v), adminHandler(&p.state, p.newAdminGate(), inside)),
		ConnContext:       gateContext,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() { // ends in stop
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("admin ends", "err", err)
		}
	}()
	p.log.Info("admin listening", "addr", ln.Addr())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		page.Close()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-done
	}, nil
}

// tellReady answers /readyz: 200 while the proxy serves anything at all, since a balancer that took it away
// for what is wrong at the upstream would take all proxies away. strict is for people and alerts: 503 while
// anything is not served.
func tellReady(w http.ResponseWriter, err error, strict bool, reasons func() bool) {
	if err == nil {
		io.WriteString(w, "ready\n")
		return
	}
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

// adminHandler serves /healthz and /readyz to all, and what is inside to those whom gate lets in.
func adminHandler(s *state, gate *adminGate, inside http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", gate.only(inside))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		tellReady(w, s.Ready(), r.URL.Query().Has("strict"), func() bool { return gate.judge(r) == letIn })
	})
	return mux
}

// adminInside serves /metrics and, if profiles, /debug/pprof.
func adminInside(s *state, profiles bool, more ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(s, s.Ready, more...), promhttp.HandlerOpts{}))
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
