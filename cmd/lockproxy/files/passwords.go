package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
)

const (
	// commandLimit is how long a command may take.
	commandLimit = 30 * time.Second
	// refusedPause is the pause before a password that a node has refused is read again.
	refusedPause = 5 * time.Second
	// failedPause is the pause after a failed attempt to read a password.
	failedPause = 30 * time.Second
	// failedReminder is how often the same failure is logged.
	failedReminder = time.Minute
	// longestReason is how much of a command's standard error is logged.
	longestReason = 200
)

// Passwords are those for the upstream, its Sentinels, the masters of RedLock and the admin listener, and
// that of clients, which is here only if it is read from a file. Follow and Source may be called of those
// that are nil.
type Passwords struct {
	Upstream, Sentinel, Redlock, Admin, Clients *password
	read                                        []*password // those of files and programs
}

// ReadPasswords reads each password for the first time. Its errors name the setting.
func ReadPasswords(v *settings.Values) (Passwords, error) {
	var p Passwords
	var wrong []error
	for _, one := range []struct {
		at                **password
		setting, user, is string
		from              settings.PasswordFrom
	}{
		{&p.Upstream, "upstream-password", v.Upstream.User, v.Upstream.Password, v.UpstreamFrom},
		{&p.Sentinel, "sentinel-password", v.Upstream.SentinelUser, v.Upstream.SentinelPassword,
			v.SentinelFrom},
		{&p.Redlock, "redlock-password", v.Masters.User, v.Masters.Password, v.RedlockFrom},
		{&p.Admin, "admin-password", "", v.Admin.Password, v.Admin.From},
		{&p.Clients, "requirepass", "", "", v.ClientsFrom},
	} {
		// Files are looked at each rereadEvery, since that costs next to nothing; programs run as seldom as
		// the setting says.
		w := &password{setting: one.setting + "-file", user: one.user, from: one.from, pause: rereadEvery,
			again: make(chan struct{}, 1), alone: one.at == &p.Clients}
		login := cluster.Login{User: one.user, Password: one.is}
		switch {
		case one.from.Command != "":
			w.setting, w.pause = one.setting+"-command", v.PasswordInterval
		case !one.from.Given() && w.alone:
			continue // it is that of the settings
		}
		// It blocks, for commandLimit at most with a program: without a password nothing could be connected
		// to.
		if one.from.Given() {
			var err error
			if login, err = w.readLogin(context.Background()); err != nil {
				wrong = append(wrong, err)
				continue
			}
			p.read = append(p.read, w)
		}
		w.logins = cluster.NewLogins(login)
		*one.at = w
	}
	return p, errors.Join(wrong...)
}

// Watch reads them again and again until ctx ends, and calls renewed when that of clients has changed. It
// returns at once.
func (p Passwords) Watch(ctx context.Context, log *slog.Logger, renewed func()) {
	for _, w := range p.read {
		go w.watchSource(ctx, log, renewed) // ends when ctx does
	}
}

// States are those of what is read.
func (p Passwords) States() (all []State) {
	for _, w := range p.read {
		all = append(all, State{Of: w.setting, Failed: w.failed.Load()})
	}
	return all
}

// Again has those that stand in files read at once. Programs are not run for it: they may be slow, or ask
// somebody.
func (p Passwords) Again() {
	for _, w := range p.read {
		if w.from.File == "" {
			continue
		}
		select {
		case w.again <- struct{}{}:
		default: // it is about to be
		}
	}
}

// Follow takes over passwords that are settings, for connections that are made from now on. That of clients
// is not among them: it is a setting, or renewed by watchSource.
func (p Passwords) Follow(v *settings.Values) {
	p.Upstream.followSetting(v.Upstream.Password)
	p.Sentinel.followSetting(v.Upstream.SentinelPassword)
	p.Redlock.followSetting(v.Masters.Password)
	p.Admin.followSetting(v.Admin.Password)
}

// password is a password that may be renewed. It belongs to the goroutine of watchSource once that runs, but
// for logins and failed.
type password struct {
	setting string
	user    string // unless what is read names another
	alone   bool   // it is that of clients: no user goes with it
	from    settings.PasswordFrom
	pause   time.Duration
	again   chan struct{} // each asks for it to be read now
	logins  *cluster.Logins
	failed  atomic.Bool // it could not be read last
}

// followSetting is Passwords.Follow for one of them.
func (w *password) followSetting(is string) {
	if w != nil && !w.from.Given() {
		w.logins.Renew(cluster.Login{User: w.user, Password: is})
	}
}

// Source returns the Logins for the data plane; nil means that the password does not change.
func (w *password) Source() *cluster.Logins {
	if w == nil {
		return nil
	}
	return w.logins
}

// watchSource renews the Login. The last one that was read stays in use until there is a better one.
func (w *password) watchSource(ctx context.Context, log *slog.Logger, renewed func()) {
	var told string // why it could not be had
	var toldAt time.Time
	// when it was read last, well or not
	last := time.Now()
	for pause := w.pause; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-w.again:
		// A node refuses what was right before: it was changed there, so the source may have a new one. Not
		// at once, or a wrong password would have a program run without end.
		case <-w.logins.Refused():
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(last.Add(refusedPause))):
			}
		}
		last = time.Now()
		login, err := w.readLogin(ctx)
		w.failed.Store(err != nil)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(w.pause, failedPause)
			if err.Error() != told || time.Since(toldAt) >= failedReminder {
				told, toldAt = err.Error(), time.Now()
				log.Warn("no new password: the one before stays in use, and new connections fail when it "+
					"has expired", "err", err)
			}
			continue
		// the trouble is over, which whoever has seen the warning wants to know
		case told != "":
			told = ""
			log.Info("the password can be read again", "setting", w.setting)
		}
		pause = w.pause
		// Connections that are there stay: a server checks a password when it is given.
		if w.logins.Renew(login) {
			if w.alone {
				renewed()
			}
			log.Info("a new password is in use", "setting", w.setting, "user", login.User)
		}
	}
}

// readLogin reads the file or runs the command. Its errors name the setting, the reason and the remedy, and
// nothing of the password.
func (w *password) readLogin(ctx context.Context) (cluster.Login, error) {
	text, err := w.sourceText(ctx)
	if err != nil {
		return cluster.Login{}, fmt.Errorf("%s %w", w.setting, err)
	}
	login := cluster.Login{User: w.user, Renewed: true}
	switch lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n"); {
	// Only line ends at the end are cut: blanks may belong to the password.
	case len(lines) == 1:
		login.Password = lines[0]
	case len(lines) == 2 && !w.alone:
		login.User, login.Password = strings.TrimSuffix(lines[0], "\r"), lines[1]
	}
	switch {
	case login.Password == "" && w.alone:
		return cluster.Login{}, fmt.Errorf("%s has to give one line, the password: it gives none, or more",
			w.setting)
	case login.Password == "":
		return cluster.Login{}, fmt.Errorf("%s has to give one line, the password, or two, the user and the "+
			"password: it gives neither", w.setting)
	}
	return login, nil
}

// sourceText is the content of the file or the output of the command.
func (w *password) sourceText(ctx context.Context) (string, error) {
	if w.from.Command != "" {
		return runCommand(ctx, w.from.Command)
	}
	text, err := os.ReadFile(w.from.File)
	if err != nil {
		return "", fmt.Errorf("%s: %w (it has to be a file that lockproxy may read)", w.from.File,
			errors.Unwrap(err))
	}
	return string(text), nil
}

// runCommand runs a command and returns what it writes. Its standard error goes into the error, shortened;
// its output does not.
func runCommand(ctx context.Context, command string) (string, error) {
	words, err := settings.SplitWords(command)
	if err != nil || len(words) == 0 {
		return "", errors.Join(errors.New("is no command"), err)
	}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	var out, reason bytes.Buffer
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	// WaitDelay: a child that holds the pipes open must not keep it waiting.
	c.Stdout, c.Stderr, c.WaitDelay = &out, &reason, time.Second
	err = c.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		err = fmt.Errorf("not done after %v", commandLimit)
	}
	text := strings.TrimSpace(reason.String())
	// A program that prints the password on both, as with set -x, must not have it logged. It may be one of
	// two lines.
	hides := slices.ContainsFunc(strings.Fields(out.String()), func(secret string) bool {
		return strings.Contains(text, secret)
	})
	if hides {
		text = "(its standard error has what it wrote)"
	} else if len(text) > longestReason {
		text = text[:longestReason] + "..."
	}
	return "", fmt.Errorf("%s: %w: %s (run it as the user that lockproxy is)", words[0], err, text)
}
