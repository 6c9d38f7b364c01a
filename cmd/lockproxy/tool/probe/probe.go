// Package probe is lockproxy health and lockproxy ready: health checks where there is no shell and no curl.
// They
// ask the admin address, found in the same settings as the proxy's, or the port of clients.
package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
)

// whereAbout is the part of help that both have.
const whereAbout = `The address is that of the setting admin: the probe takes the flags, variables
and config file of the proxy, and so asks the right one when it runs beside it, as in a container.

With --proxy it asks the port of clients there instead, with PING: for a proxy whose admin address is off
or elsewhere.`

// Load reads the settings of a proxy from a command line and variables.
type Load func(args, environ []string) (*settings.Values, error)

// command is a subcommand that asks p's question.
func command(p *probe, c *cobra.Command) *cobra.Command {
	p.within = 3 * time.Second
	c.Long = tool.Long(c.Long, tool.Exit{Code: tool.ExitOK, Meaning: "yes"},
		tool.Exit{Code: tool.ExitNo, Meaning: "no, or nobody answers; standard error says why"})
	c = tool.TakesSettings(tool.Command(c, 0, 0, p.runProbe))
	c.Flags().Var(kind.Time(&p.within, time.Millisecond, time.Hour), "within",
		"how long the proxy may take to answer")
	p.proxy = client.Flags(c.Flags(), "")
	return c
}

// Health is lockproxy health.
func Health(load Load) *cobra.Command {
	return command(&probe{load: load, path: "/healthz", accepts: alive}, &cobra.Command{
		Use:   "health [--flag value]...",
		Short: "Asks whether the proxy is alive, as /healthz does",
		Long: `
For liveness probes: a proxy that waits for its upstream is alive, for a restart would not help.

` + whereAbout,
		Example: `  lockproxy health
        in a container, as its health check
  lockproxy health --admin 127.0.0.1:7390
        a proxy with that admin address
  lockproxy health --proxy 10.0.0.9:6380
        does anything answer there?`,
	})
}

// Ready is lockproxy ready.
func Ready(load Load) *cobra.Command {
	p := &probe{load: load, path: "/readyz", accepts: serves}
	c := command(p, &cobra.Command{
		Use:   "ready [--flag value]...",
		Short: "Asks whether the proxy can serve commands, as /readyz does",
		Long: `
For readiness probes: no while the proxy serves nothing, or ends. What is wrong at the
upstream is so for every proxy, so a lost master is no reason to send clients elsewhere; --strict says no
then, too, and while too few masters of RedLock vote.

` + whereAbout + ` PING tells only whether the proxy has found its upstream.`,
		Example: `  lockproxy ready
        in a container, as its readiness probe
  lockproxy ready --config /etc/lockproxy.conf --within 800ms
        a proxy with that file, in less time than Kubernetes has by default
  until lockproxy ready; do sleep 1; done
        in a script that has just started a proxy`,
	})
	tool.Yes(c.Flags(), &p.strict, "strict", "no while anything is not served, as /readyz?strict says")
	return c
}

// probe is one question to a proxy.
type probe struct {
	load    Load
	path    string                // of the admin listener
	strict  bool                  // whatever is wrong
	accepts func(err error) error // what the outcome of PING means
	within  time.Duration
	proxy   *client.Options
}

// runProbe is one use of the subcommand. The settings are read only if the admin address is asked: with
// --proxy they need not be right.
func (p *probe) runProbe(c *tool.Invocation) int {
	ctx, cancel := context.WithTimeout(context.Background(), p.within)
	defer cancel()
	if p.proxy.Addr != "" {
		if err := p.proxy.Check(); err != nil {
			return c.Misused(err)
		}
		return p.answerWith(c, p.pingProxy(ctx))
	}
	v, err := p.load(c.Settings, c.Environ)
	if err != nil {
		return c.Misused(err)
	}
	path := p.path
	if p.strict {
		path += "?strict"
	}
	return p.answerWith(c, askAdmin(ctx, v, path))
}

// answerWith is the exit code: nil is yes. What is wrong goes to standard error, where an orchestrator keeps
// it for people.
func (p *probe) answerWith(c *tool.Invocation, err error) int {
	if err != nil {
		return c.Fail(tool.ExitNo, err)
	}
	return tool.ExitOK
}

// pingProxy connects as any client does, and logs in if a password is given. accepts says what came of it.
func (p *probe) pingProxy(ctx context.Context) error {
	conn, err := p.proxy.Connect(ctx)
	if err == nil {
		conn.Close()
	}
	return p.accepts(err)
}

// alive takes any answer of the proxy: it is there. A proxy without an upstream answers -LOADING, which is an
// answer.
func alive(err error) error {
	if _, ok := client.Reply(err); ok {
		return nil
	}
	return err
}

// serves takes an answer that only a proxy gives that has found its upstream. -NOAUTH: it asks for a
// password, which the probe does not have, and so has found its upstream.
func serves(err error) error {
	if text, ok := client.Reply(err); ok && strings.HasPrefix(text, "NOAUTH") {
		return nil
	}
	return err
}

// askAdmin sends a request to the admin listener; the error is what it has answered instead of 200. The
// listener's certificate is not looked at: it is for those who call from elsewhere, and no password is sent.
func askAdmin(ctx context.Context, v *settings.Values, path string) error {
	if v.Admin.Addr == "" {
		return errors.New("admin is off, so there is nothing to ask; --proxy asks the port of clients")
	}
	host, port, _ := net.SplitHostPort(v.Admin.Addr) // as the settings have checked
	// It listens on all addresses, of which loopback is one.
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	scheme := "http://"
	if v.Admin.TLS.Cert != "" {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+net.JoinHostPort(host, port)+path,
		http.NoBody)
	if err != nil {
		return err
	}
	// no HTTP_PROXY
	asker := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := asker.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
