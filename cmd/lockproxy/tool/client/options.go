// Package client reaches a lockproxy for subcommands: the flags that say where it is and how to log in, and
// one connection to it. The exit code of what went wrong is Code's.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool"
)

// Options say where the proxy is, and how to get in. The flags are named as those of redis-cli, where it has
// them. Flags fills them in when the command line is read; Check comes before Connect.
type Options struct {
	Addr     string // host:port, or the path of a unix socket
	User     string
	Password string
	TLS      bool
	CA       string // PEM file; "": the authorities of the system
	Cert     string // PEM file
	Key      string // PEM file
	SNI      string // "": the host of Addr
	Insecure bool   // takes any certificate
	Timeout  time.Duration
}

// passwordVariables hold the password if no flag does. The second one is what redis-cli takes.
var passwordVariables = []string{"LOCKPROXY_PASS", "REDISCLI_AUTH"}

// IsPassword says that a variable of an environment, NAME=VALUE, is one of these.
func IsPassword(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(passwordVariables, name)
}

// Addr is where a proxy listens unless it is told otherwise.
const Addr = "127.0.0.1:6380"

// Flags declares the flags of a connection in f, and returns where their values will be. Without --proxy the
// address is addr. The Options are those of the flags: they change when the command line is read.
func Flags(f *pflag.FlagSet, addr string) *Options {
	o := &Options{Addr: addr, Timeout: 5 * time.Second}
	// A set of their own, so that help has them below a heading, in this order.
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.Var(kind.Text(&o.Addr, "ADDR", "any text"), "proxy", "where the proxy is: host:port, or the "+
		"path of its unix socket")
	own.Var(kind.Text(&o.User, "NAME", "any text"), "user", "user to log in as")
	own.Var(kind.Text(&o.Password, "PASSWORD", "any text"), "pass", "its password; other users of this "+
		"machine see flags, so better take a variable")
	tool.Yes(own, &o.TLS, "tls", "use TLS")
	own.Var(kind.File(&o.CA, "a PEM file"), "cacert", "authority of the proxy's certificate")
	own.Var(kind.File(&o.Cert, "a PEM file"), "cert", "certificate of this client")
	own.Var(kind.File(&o.Key, "a PEM file"), "key", "private key of --cert")
	own.Var(kind.Text(&o.SNI, "HOST", "any text"), "sni", "name that the proxy's certificate must have, "+
		"if not the host of --proxy")
	tool.Yes(own, &o.Insecure, "insecure", "take any certificate")
	own.Var(kind.Time(&o.Timeout, time.Millisecond, time.Hour), "connect-timeout",
		"how long connecting may take, and the answer to a command that need not wait")
	for name, variables := range map[string][]string{
		"proxy": {"LOCKPROXY_PROXY"}, "user": {"LOCKPROXY_USER"}, "pass": passwordVariables,
		"tls": {"LOCKPROXY_TLS"}, "cacert": {"LOCKPROXY_CACERT"}, "cert": {"LOCKPROXY_CERT"},
		"key": {"LOCKPROXY_KEY"}, "sni": {"LOCKPROXY_SNI"}, "connect-timeout": {"LOCKPROXY_CONNECT_TIMEOUT"},
	} {
		tool.Or(own, name, variables...)
	}
	tool.Under(own, "Connection")
	own.SortFlags = false
	f.AddFlagSet(own)
	return o
}

// network is that of the address, as net.Dial names it.
func (o *Options) network() string {
	if strings.Contains(o.Addr, "/") {
		return "unix"
	}
	return "tcp"
}

// Check says what is wrong with the options. It reads the files that are named, so that a wrong path is told
// before anything connects.
func (o *Options) Check() error {
	if strings.Contains(o.Addr, "://") { // and maybe with a password, which is not repeated
		return errors.New("--proxy must be host:port or the path of a unix socket, and a URL is neither: " +
			"write localhost:6380 for redis://localhost:6380, with --tls for rediss:// and valkeys://, and " +
			"--user and --pass")
	}
	if o.network() == "tcp" {
		if _, _, err := net.SplitHostPort(o.Addr); err != nil {
			return fmt.Errorf("--proxy must be host:port or a path, and %q is not", o.Addr)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("--cert and --key need each other")
	}
	_, err := o.tlsConfig()
	return err
}

// tlsConfig is how TLS is done, nil for not at all.
func (o *Options) tlsConfig() (*tls.Config, error) {
	if !o.TLS {
		return nil, nil
	}
	config := &tls.Config{ServerName: o.SNI, InsecureSkipVerify: o.Insecure}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(o.Addr)
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert %s: there is no certificate in it", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
