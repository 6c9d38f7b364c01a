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
	if p.certs.admin != nil {
		ln = tls.NewListener(ln, &tls.Config{GetConfigForClient: p.certs.admin.forClient})
	}
	page := p.newAdminPage()
	inside := onlyPages(p.config.Values, page, adminInside(&p.state, v.AdminPprof, reloads{p}))
	srv := &http.Server{
		Handler:           onlyHosts(adminNames(v), adminHandler(&p.state, p.newAdminGate(), inside)),
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

// adminHandler serves /healthz and /readyz to all, and what is inside to those whom gate lets in.
func adminHandler(s *state, gate *adminGate, inside http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", gate.only(inside))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch err := s.Ready(); {
		case err == nil:
			io.WriteString(w, "ready\n")
		case gate.judge(r) == letIn:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			http.Error(w, "not ready: the reason is told to those who give admin-password",
				http.StatusServiceUnavailable)
		}
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
