// Package adminpage is the page of the admin listener: what the upstream, the proxies and the locks are doing
// now. It is HTML, a style sheet and a script, which are embedded, and one stream of events that feeds them:
//
//	browser --> GET /live --> board.addViewer                    a viewer
//	                            |
//	                          showCounters: each second          counters of this proxy        (status.go)
//	                          makeSearches: each in its turn     the index and state of locks  (search.go)
//	                          watchEvents: while somebody looks  events of locks               (events.go)
//	                            |
//	            events of the stream, the same bytes for all viewers
//
//	browser --> POST /break --> breaker                           if the settings allow it      (break.go)
//
// While nobody looks nothing runs, and nothing is asked. However many look, the upstream is asked once.
// Names of locks and of clients are hostile: they leave here in JSON, as text that can be printed (text.go),
// and the script puts them into the page as text. Tokens never leave the proxy: only digests of them do.
package adminpage

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/commands/lock"
	"lockproxy/internal/lockevent"
	"lockproxy/proxy"
	"lockproxy/redlock"
	"lockproxy/redlock/totals"
)

// Source is the proxy; proxy.View implements it. Safe for concurrent use. Methods with a ctx ask the upstream
// or other proxies, and block until they answer; the others do not block.
type Source interface {
	ID() string
	Started() time.Time
	Topology() *cluster.Topology
	// whether a node cannot be reached now, since when and why
	Down(addr string) (cluster.Outage, bool)
	Busiest(n int) []lock.Count
	Proxies(ctx context.Context) totals.Sum
	// at most most of the locks whose names match; names is how many there are about, which may be more
	Locks(ctx context.Context, match string, most int) (all []lock.Seen, names int, err error)
	Break(ctx context.Context, name string, by redlock.Client) (broken bool, err error)
	// whether Watch hears the events of all proxies (lock-events)
	Everywhere() bool
	Watch(ctx context.Context, tell func([]lockevent.Event)) (leave func(), err error)
}

// Options are what a Page needs. All functions may be called from any goroutine, and must not block.
type Options struct {
	Source  func() Source // nil as long as there is no upstream
	Stats   func() proxy.Stats
	Ready   func() error
	Values  func() *settings.Values
	Version string
	Log     *slog.Logger
}

// Page is the page, as a handler. Close ends it.
type Page struct {
	http.Handler
	board *board
}

//go:embed assets
var assets embed.FS

// New returns a Page that nobody looks at.
func New(o Options) *Page {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	p := &Page{board: newBoard(o)}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /live", p.board.serveLive)
	mux.Handle("POST /break", &breaker{o: o, board: p.board})
	p.Handler = guarded(mux)
	return p
}

// Close ends the streams of all viewers, and waits for what was asked for them.
func (p *Page) Close() { p.board.closeBoard() }

// policy lets a browser load what this listener has, and nothing else: no script and no style inside the
// page, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guarded adds the headers that keep other pages away. The policy is the second line of defence: the script
// writes names as text only.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
