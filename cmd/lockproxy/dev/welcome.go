package dev

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"lockproxy/cmd/lockproxy/admin"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool/client"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// tip is something to try with --dev.
type tip struct{ what, do string }

// Welcome tells those who have started --dev what they can type next, at the addresses of clients and of the
// admin
// HTTP (nil: there is none): in a few lines to read on a terminal, as lines of the log elsewhere.
func Welcome(w io.Writer, log *slog.Logger, v *settings.Values, clients, at net.Addr) {
	// log-level warn asks for quiet
	if clients == nil || !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	all := hints(typed(os.Args[0]), v, clients, at)
	if v.LogFormat == "json" || !terminal.Is(w) {
		for _, h := range all {
			log.Info("dev: to try", "what", h.what, "do", h.do)
		}
		return
	}
	io.WriteString(w, banner(clients, all))
}

// hints are what can be tried at these addresses with a program of that name; at nil: there is no page. They
// can be copied as they stand, but for passwords and authorities that are not known here.
func hints(program string, v *settings.Values, clients, at net.Addr) (all []tip) {
	cli, tool := "redis-cli", program+" lock"
	if clients.Network() == "unix" {
		cli += " -s " + clients.String()
		tool += " --proxy " + clients.String()
	} else {
		host, port := reachable(clients)
		// what redis-cli assumes need not be typed
		if host != "127.0.0.1" {
			cli += " -h " + host
		}
		cli += " -p " + port
		if at := net.JoinHostPort(host, port); at != client.Addr {
			tool += " --proxy " + at
		}
		if v.TLS.Cert != "" { // for TCP alone
			secure := " --tls --cacert " + authority(v.TLS.Cert)
			cli += secure
			tool += secure
		}
	}
	if !v.Open() {
		all = append(all, tip{"the password, for both commands", "export REDISCLI_AUTH=..."})
	}
	all = append(all, tip{"take a lock for a minute", cli + " LOCK job TOKEN me PX 60000"},
		tip{"free it", cli + " UNLOCK job me"})
	switch {
	case at == nil:
	case admin.HidesPage(v) != "":
		all = append(all, tip{"see it in a browser", "start it with --admin-password too, then " +
			adminURL(v, at)})
	default:
		all = append(all, tip{"look at it in a browser", adminURL(v, at)})
	}
	return append(all, tip{"run a command under a lock", tool + " job -- sleep 10"},
		tip{"end", "Ctrl-C, or SIGTERM"})
}

// authority is the file by which a client verifies the certificate in file. A certificate that has signed
// itself can be given as it is. For another one the file is not known here, so a name that stands for it is
// shown.
func authority(file string) string {
	text, _ := os.ReadFile(file)
	if block, _ := pem.Decode(text); block != nil {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate,
			cert.Signature) == nil {
			return file // it vouches for itself
		}
	}
	return "AUTHORITY-OF-" + filepath.Base(file)
}

// typed is how this program is called on a command line, when it was started as path.
func typed(path string) string {
	if strings.Contains(path, "/go-build") {
		return "go run ./cmd/lockproxy" // its binary lies where nobody looks, and goes when it ends
	}
	return path
}

// adminURL is where a browser finds the page.
func adminURL(v *settings.Values, admin net.Addr) string {
	scheme := "http://"
	if v.Admin.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(reachable(admin))
}

// reachable is where clients on this machine find a listener, which may listen on all addresses.
func reachable(addr net.Addr) (host, port string) {
	host, port, _ = net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return host, port
}

// banner is the hints as lines to read.
func banner(clients net.Addr, all []tip) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nlockproxy serves on %s, with a Redis in its memory. To try:\n\n",
		terminal.Safe(clients.String()))
	for _, h := range all {
		fmt.Fprintf(&b, "  %-27s %s\n", h.what, terminal.Safe(h.do))
	}
	return b.String() + "\n"
}
