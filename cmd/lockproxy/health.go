package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthTimeout is how long a live proxy may take to answer.
const healthTimeout = 3 * time.Second

// health is the subcommand for the health check of an image without a shell: it asks
// the admin address, found in the same settings as the proxy's, for /healthz.
func health(args, environ []string, stdout, stderr io.Writer) int {
	v, err := load(args, environ)
	switch {
	case errors.Is(err, errHelp):
		writeHelp(stdout)
		return exitOK
	case errors.Is(err, errVersion):
		io.WriteString(stdout, versionLine())
		return exitOK
	case err != nil:
		complain(stderr, err)
		return exitUsage
	}
	if err := askHealth(v.Admin, v.AdminTLSCert != ""); err != nil {
		complain(stderr, fmt.Errorf("health: %w", err))
		return exitFailed
	}
	return exitOK
}

// askHealth asks the proxy on this machine. Its certificate is not looked at: it is for those who call from
// elsewhere, and no password is sent.
func askHealth(admin string, secure bool) error {
	if admin == "" {
		return errors.New("admin is off, so there is nothing to ask")
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	// no HTTP_PROXY
	client := http.Client{Timeout: healthTimeout, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	resp, err := client.Get(scheme + net.JoinHostPort(host, port) + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
